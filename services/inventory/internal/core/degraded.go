package core

import (
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// DegradedSale bounds the sale of an activity while Redis is unavailable.
type DegradedSale struct {
	PerSecond int64 // purchases, over all processes
	Drop      int64 // per cent of the purchase requests that seckill refuses at random
	Reserve   int64 // per cent of the stock that is kept for purchases accepted before, beyond those that are known
}

// Bounds and defaults of a DegradedSale.
const (
	maxDegradedPerSecond   = 100_000
	maxDegradedDrop        = 99
	maxDegradedReserve     = 100
	DefaultDegradedReserve = 1
)

func (d *DegradedSale) validate() error {
	switch {
	case d == nil:
	case d.PerSecond < 1 || d.PerSecond > maxDegradedPerSecond:
		return contract.InvalidField("degraded_sale.per_second", "must be 1 to 100000")
	case d.Drop < 0 || d.Drop > maxDegradedDrop:
		return contract.InvalidField("degraded_sale.drop", "must be 0 to 99")
	case d.Reserve < 0 || d.Reserve > maxDegradedReserve:
		return contract.InvalidField("degraded_sale.reserve", "must be 0 to 100")
	}
	return nil
}

// DirectSale holds the figures of a sale without Redis.
type DirectSale struct {
	SeenAt    time.Time        // when a process last began to read the gate; zero: never
	FiguresAt time.Time        // the time of Redis then
	NotedAt   time.Time        // when the reading had ended
	Unlanded  map[string]int64 // by SKU, units in the gate that were not known to be in the ledger
	// HeldBack has, by SKU, the units that are kept for purchases that the gate had accepted before FiguresAt. Reserve has
	// those for purchases that it has accepted since.
	HeldBack, Reserve map[string]int64
	// SoldCount purchases were sold in the second that begins at SoldSecond (Unix time).
	SoldSecond, SoldCount int64
}

// hold sets the units that are kept when the mode becomes direct. landed has, by SKU, the units of the figures that have
// landed since.
func (s *DirectSale) hold(a *Activity, landed map[string]int64) {
	s.HeldBack, s.Reserve = map[string]int64{}, map[string]int64{}
	for _, it := range a.Items {
		s.HeldBack[it.SKUID] = max(0, s.Unlanded[it.SKUID]-landed[it.SKUID])
		if a.Degraded != nil {
			s.Reserve[it.SKUID] = (it.Total*a.Degraded.Reserve + 99) / 100
		}
	}
}

// left returns the units of a SKU that may be sold now.
func (s DirectSale) left(it Stock) int64 {
	return max(0, it.Available-s.HeldBack[it.SKUID]-s.Reserve[it.SKUID])
}

// before reports whether the gate had accepted a purchase when the figures were read.
func (s DirectSale) before(it contract.Reservation) bool { return it.ReservedAt.Before(s.FiguresAt) }

// mayLand reports whether a purchase that the gate has accepted leaves the units of those before it. a has its stock as it
// is before the landing.
func (s DirectSale) mayLand(a *Activity, it contract.Reservation) bool {
	if s.before(it) {
		return true
	}
	for _, l := range it.Lines {
		if a.Item(l.SKUID).Available-s.HeldBack[l.SKUID] < l.Qty {
			return false
		}
	}
	return true
}

// landed lowers what is kept by the units of a purchase that the gate has accepted.
func (s *DirectSale) landed(it contract.Reservation) {
	for _, l := range it.Lines {
		rest := l.Qty
		if s.before(it) {
			held := s.HeldBack[l.SKUID]
			s.HeldBack[l.SKUID] = max(0, held-rest)
			rest = max(0, rest-held)
		}
		s.Reserve[l.SKUID] = max(0, s.Reserve[l.SKUID]-rest)
	}
}

// heldBack decorates the Purchases of activities that sell without their gate: a purchase that the gate has accepted
// leaves the units of those that it had accepted before.
type heldBack struct {
	Purchases
	figures map[string]*DirectSale // by activity
}

// keepBack decorates next with the figures of those activities that sell without their gate, if there are some.
func keepBack(tx LedgerTx, next Purchases, activityIDs []string) (Purchases, error) {
	h := heldBack{next, map[string]*DirectSale{}}
	for _, id := range activityIDs {
		if a := tx.Activity(id); a == nil || !a.Direct() {
			continue
		}
		figures, err := tx.DirectSale(id)
		if err != nil {
			return nil, err
		}
		h.figures[id] = &figures
	}
	if len(h.figures) == 0 {
		return next, nil
	}
	return h, nil
}

// Refusal implements Purchases.
func (h heldBack) Refusal(a *Activity, p contract.Reservation) string {
	refusal := h.Purchases.Refusal(a, p)
	if figures := h.figures[a.ID]; refusal == "" && figures != nil && !figures.mayLand(a, p) {
		return ledger.ReasonSoldOut
	}
	return refusal
}

// Take implements Purchases. It lowers the units that are held back by those of the purchase.
func (h heldBack) Take(a *Activity, p contract.Reservation) {
	h.Purchases.Take(a, p)
	if figures := h.figures[a.ID]; figures != nil {
		figures.landed(p)
	}
}

// Write implements Purchases.
func (h heldBack) Write(tx LedgerTx) error {
	if err := h.Purchases.Write(tx); err != nil {
		return err
	}
	for _, id := range sortedKeys(h.figures) {
		if err := tx.PutDirectSale(id, *h.figures[id]); err != nil {
			return err
		}
	}
	return nil
}
