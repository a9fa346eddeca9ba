package core

import "context"

// mostDecisions bounds the decisions about refunds in the result of Show. Operators may repeat them without end.
const mostDecisions = 100

// Shown is an order in the result of Show. Its refunds have their settlements.
type Shown struct {
	LookedUp
	Decisions []RefundDecision // about its refunds, oldest first
}

// Show returns an order with all that is stored about it. It is for a page of a merchant.
func (s *Service) Show(ctx context.Context, orderSN string) (Shown, error) {
	looked, err := s.Lookup(ctx, []string{orderSN})
	if err != nil || !looked[0].Found {
		return Shown{LookedUp: LookedUp{Order: Order{OrderSN: orderSN, Tombstone: err == nil && looked[0].Tombstone}}}, err
	}
	// Read after the contact: the order may have ended meanwhile, and a state never returns.
	o, found, err := s.store.Order(ctx, orderSN)
	if err != nil {
		return Shown{}, err
	}
	shown := Shown{LookedUp: LookedUp{Order: o, Found: found, Contact: looked[0].Contact}}
	if len(o.Refunds) == 0 {
		return shown, nil
	}
	ids := make([]string, len(o.Refunds))
	at := make(map[string]*Refund, len(o.Refunds))
	for i := range o.Refunds {
		ids[i], at[o.Refunds[i].PaymentID] = o.Refunds[i].PaymentID, &o.Refunds[i]
	}
	if shown.Decisions, err = s.store.RefundDecisions(ctx, ids, mostDecisions); err != nil {
		return Shown{}, err
	}
	for _, d := range shown.Decisions {
		if r := at[d.PaymentID]; d.Action == RefundSettle && r.State == RefundDone {
			r.Settled = d.Settlement
		}
	}
	return shown, nil
}
