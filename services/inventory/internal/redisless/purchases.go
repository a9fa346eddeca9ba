package redisless

import (
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// figures are those of a sale without Redis.
type figures core.RedislessSale

// hold sets the units that are kept when the sale becomes redisless. landed has, by SKU, the units of the figures that
// have landed since.
func (s *figures) hold(a *core.Activity, landed map[string]int64) {
	s.HeldBack, s.Reserve = map[string]int64{}, map[string]int64{}
	for _, it := range a.Items {
		s.HeldBack[it.SKUID] = max(0, s.Unlanded[it.SKUID]-landed[it.SKUID])
		if a.Degraded != nil {
			s.Reserve[it.SKUID] = (it.Total*a.Degraded.Reserve + 99) / 100
		}
	}
}

// left returns the units of a SKU that may be sold now.
func (s figures) left(it core.Stock) int64 {
	return max(0, it.Available-s.HeldBack[it.SKUID]-s.Reserve[it.SKUID])
}

// before reports whether the gate had accepted a purchase when the figures were read.
func (s figures) before(it contract.Reservation) bool { return it.ReservedAt.Before(s.FiguresAt) }

// mayLand reports whether a purchase that the gate has accepted leaves the units of those before it. a has its stock as
// it is before the landing.
func (s figures) mayLand(a *core.Activity, it contract.Reservation) bool {
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
func (s *figures) landed(it contract.Reservation) {
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
	core.Purchases
	figures map[string]*figures // by activity
}

// HoldBack decorates next with the figures of those activities that sell without their gate, if there are some.
func HoldBack(tx core.LedgerTx, next core.Purchases, activityIDs []string) (core.Purchases, error) {
	h := heldBack{next, map[string]*figures{}}
	for _, id := range activityIDs {
		if a := tx.Activity(id); a == nil || !a.Redisless() {
			continue
		}
		sale, _, err := tx.RedislessSale(id, nil, time.Time{})
		if err != nil {
			return nil, err
		}
		h.figures[id] = (*figures)(&sale)
	}
	if len(h.figures) == 0 {
		return next, nil
	}
	return h, nil
}

// Refusal implements Purchases.
func (h heldBack) Refusal(a *core.Activity, p contract.Reservation) string {
	refusal := h.Purchases.Refusal(a, p)
	if figures := h.figures[a.ID]; refusal == "" && figures != nil && !figures.mayLand(a, p) {
		return ledger.ReasonSoldOut
	}
	return refusal
}

// Take implements Purchases. It lowers the units that are held back by those of the purchase.
func (h heldBack) Take(a *core.Activity, p contract.Reservation) {
	h.Purchases.Take(a, p)
	if figures := h.figures[a.ID]; figures != nil {
		figures.landed(p)
	}
}

// Write implements Purchases.
func (h heldBack) Write(tx core.LedgerTx) error {
	if err := h.Purchases.Write(tx); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(h.figures)) {
		if err := tx.PutRedislessSale(id, core.RedislessSale(*h.figures[id])); err != nil {
			return err
		}
	}
	return nil
}
