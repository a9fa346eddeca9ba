package merchants

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// SKUView holds the stock of one SKU in the database and in the gate. Gate is nil if the activity has no gate: it is
// a draft, or it ended long ago.
type SKUView struct {
	SKUID      string
	Total      int64
	Available  int64
	Reserved   int64
	Sold       int64
	Gate       *core.GateStock
	Difference int64 // available - left - queued units that have not landed; 0: they agree
}

// stockReadings bounds the readings of one StockView.
const stockReadings = 5

// StockView is the stock of an activity in the database and in the gate.
type StockView struct {
	AsOf time.Time
	SKUs []SKUView
}

// StockView reads the database before and after the gate, until nothing lands between the two readings. Under load it
// gives up after five readings and returns the last one; a difference in it may be momentary.
func (s *Service) StockView(ctx context.Context, in core.Scope, activityID string) (*StockView, error) {
	before, err := s.Activity(ctx, in, activityID)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		audit, err := s.Gate.Audit(ctx, activityID)
		present := err == nil
		if errors.Is(err, core.ErrNoGate) {
			due, dueErr := s.Gates.IsDue(ctx, before)
			if dueErr != nil {
				return nil, core.GateUnreadable(dueErr)
			}
			if due && before.UsesGate() {
				return nil, core.GateUnreadable(err)
			}
			err = nil
		}
		if before.WithoutGate(err) {
			err = nil
		}
		if err != nil {
			return nil, core.GateUnreadable(err)
		}
		after, err := s.Activity(ctx, in, activityID)
		if err != nil {
			return nil, err
		}
		if view, settled := CompareStock(before, after, audit, present, s.clock()); settled || attempt == stockReadings {
			return view, nil
		}
		before = after
	}
}

// CompareStock compares the stock in the database, read before and after the gate, with that of the gate; present
// reports whether there is a gate. settled is false if the stock changed between the two readings: then a difference
// may be momentary.
func CompareStock(
	before, after *core.Activity, audit core.GateAudit, present bool, now time.Time,
) (view *StockView, settled bool) {
	return stockView(after, audit, present, now), sameStock(before, after)
}

func sameStock(a, b *core.Activity) bool {
	if len(a.Items) != len(b.Items) {
		return false
	}
	for i := range a.Items {
		if a.Items[i] != b.Items[i] {
			return false
		}
	}
	return true
}

func stockView(a *core.Activity, audit core.GateAudit, present bool, now time.Time) *StockView {
	v := &StockView{AsOf: now}
	for _, it := range a.Items {
		sku := SKUView{SKUID: it.SKUID, Total: it.Total, Available: it.Available, Reserved: it.Reserved, Sold: it.Sold}
		if g, ok := audit.SKUs[it.SKUID]; ok || present {
			sku.Gate = &g
			sku.Difference = it.Available - g.Left - g.Journal - g.InFlight
		}
		v.SKUs = append(v.SKUs, sku)
	}
	return v
}
