package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// SKUView is one SKU as the database and the gate see it. Gate is nil when the activity has no gate (a draft, or long over).
type SKUView struct {
	SKUID      string
	Total      int64
	Available  int64
	Reserved   int64
	Sold       int64
	Gate       *GateStock
	Difference int64 // available - left - queued pieces that are not in the ledger yet; 0: they agree
}

// StockView is the three-way view of an activity's stock.
type StockView struct {
	AsOf time.Time
	SKUs []SKUView
}

// StockView reads the database before and after the gate, and takes the reading during which nothing landed. Under load
// no quiet moment may come; the last reading is told then, and a difference in it may be that of the moment.
func (s *Service) StockView(ctx context.Context, activityID string) (*StockView, error) {
	before, err := s.Activity(ctx, activityID)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		audit, err := s.gate.Audit(ctx, contract.GateRef{ActivityID: activityID})
		present := err == nil
		if errors.Is(err, ErrNoGate) {
			if before.GateDue(s.now()) {
				return nil, GateUnreadable(err)
			}
			err = nil
		}
		if err != nil {
			return nil, GateUnreadable(err)
		}
		after, err := s.Activity(ctx, activityID)
		if err != nil {
			return nil, err
		}
		if sameStock(before, after) || attempt == 5 {
			return s.view(after, audit, present), nil
		}
		before = after
	}
}

func sameStock(a, b *Activity) bool {
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

func (s *Service) view(a *Activity, audit GateAudit, present bool) *StockView {
	v := &StockView{AsOf: s.now()}
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
