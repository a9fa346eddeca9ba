package core

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Follow changes the ledger rows of orders by their events. Events come in any order and any number of times. Rows
// only rise, so each event either moves its row or finds it moved. deadLetters are items of the message that could
// not be read.
//
// An event about an order_sn that the ledger does not have cannot happen unless a database loses commits: a deduction
// is published only after the commit of its row. Waiting would not help. So created and closed become dead letters,
// and paid is refunded, as no units are reserved.
//
// An order that was refunded while its row holds units, as by a review, is closed: the order service's response releases
// them. So they return also if the process that refunded it was killed.
func (s *Service) Follow(ctx context.Context, events []contract.OrderEvent, deadLetters []contract.DeadLetter) error {
	steps := make([]step, 0, len(events))
	var refunded []string
	for _, ev := range events {
		if ev.Type == contract.OrderRefunded {
			refunded = append(refunded, ev.OrderSN)
			continue
		}
		steps = append(steps, step{
			orderSN: ev.OrderSN, activityID: ev.ActivityID, event: &ev,
			Step: ledger.Step{Order: ev.Type, At: ev.At, ExpiresAt: ev.ExpiresAt, Reason: ev.Reason},
		})
	}
	if err := s.applySteps(ctx, contract.GroupInventoryOrderEvents, contract.TopicOrderEvents, steps, deadLetters); err != nil {
		return err
	}
	return s.closeRefunded(ctx, refunded)
}

// closeRefunded closes the orders whose rows hold units.
func (s *Service) closeRefunded(ctx context.Context, orderSNs []string) error {
	if len(orderSNs) == 0 {
		return nil
	}
	rows, broken, err := s.Store.ReadableReservations(ctx, orderSNs)
	if err != nil {
		return err
	}
	s.Incidents.RaiseUnreadable(ctx, broken)
	holding := map[string][]string{} // by activity
	for _, r := range rows {
		if r.Holds() {
			holding[r.ActivityID] = append(holding[r.ActivityID], r.OrderSN)
		}
	}
	for _, id := range sortedKeys(holding) {
		if err := s.Guard.MayClose(ctx, id); err != nil {
			return err
		}
		c := contract.OrderClose{OrderSNs: holding[id], ActivityID: id}
		if _, err := s.CloseOrders(ctx, c, ledger.ReasonExpired, ledger.ReasonExpired); err != nil {
			return err
		}
	}
	return nil
}

// step is one step of an order, from an event or from the response to a call.
type step struct {
	ledger.Step
	orderSN    string
	activityID string
	event      *contract.OrderEvent // nil if it comes from the response to a call, which is Present
}

// errOtherActivity rolls a ledger transaction back in which a row belongs to an activity that it does not lock.
var errOtherActivity = errors.New("a row belongs to another activity than its step")

// errMissingRow rolls a ledger transaction back, in which a step has no row, until it is known that no import brings it.
var errMissingRow = errors.New("the ledger has no row of a step")

// applySteps changes the rows in one ledger transaction. Then it syncs their gates and refunds payments that came too
// late. It fails with ErrImporting if a row is missing that an import may bring.
func (s *Service) applySteps(
	ctx context.Context, where, topic string, steps []step, deadLetters []contract.DeadLetter,
) error {
	var f following
	missingChecked := false
	commit := func() error {
		return InSpan(ctx, s.Recorder, "ledger transaction", true, func(ctx context.Context) error {
			ids := map[string]bool{}
			for _, st := range steps {
				ids[st.activityID] = true
			}
			return s.Store.Ledger(ctx, sortedKeys(ids), func(tx LedgerTx) error {
				now, err := tx.Now()
				if err != nil {
					return err
				}
				f = following{now: now, where: where, topic: topic}
				if err := f.decide(tx, steps); err != nil {
					return err
				}
				if f.missing != "" && !missingChecked {
					return errMissingRow
				}
				f.moves.DeadLetters = append(f.moves.DeadLetters, deadLetters...)
				return tx.Apply(f.moves)
			})
		})
	}
	err := commit()
	if errors.Is(err, errMissingRow) {
		if err := s.Guard.MayClose(ctx, f.missing); err != nil {
			return err
		}
		missingChecked = true
		err = commit()
	}
	if err != nil {
		return err
	}
	for _, d := range f.moves.DeadLetters {
		s.Recorder.Incident(ctx, "order event became a dead letter", "order_sn", d.OrderSN)
	}
	for _, sn := range f.unreserved {
		s.Recorder.Incident(ctx, "order exists but the ledger has no reservation", "order_sn", sn)
	}
	for _, sn := range f.contradicted {
		s.Recorder.Incident(ctx, "order is closed but the ledger row is sold", "order_sn", sn)
	}
	if f.closed > 0 {
		s.Recorder.Closed(ctx, f.closed, f.lateness)
	}
	return errors.Join(s.Gates.Sync(ctx, f.rows), s.RefundUnreserved(ctx, f.refunds))
}

// RefundUnreserved makes the order service refund payments whose units are not reserved any more.
func (s *Service) RefundUnreserved(ctx context.Context, orderSNs []string) error {
	if len(orderSNs) == 0 {
		return nil
	}
	return s.retry(ctx, func() error {
		for c := range slices.Chunk(orderSNs, contract.MaxItems) {
			outcomes, err := s.Orders.Refund(ctx, c, "no_stock")
			if err != nil {
				return err
			}
			for _, sn := range c {
				s.Recorder.Incident(ctx, "paid order without reserved units is refunded", "order_sn", sn, "outcome",
					outcomes[sn])
			}
		}
		return nil
	})
}

// following is the outcome of one run of the transaction.
type following struct {
	now          time.Time
	where, topic string
	moves        *ledger.Moves
	rows         []ledger.Row
	refunds      []string
	contradicted []string
	unreserved   []string // orders that exist, and have no row
	closed       int
	lateness     time.Duration
	missing      string // activity of a step without a row
}

func (f *following) decide(tx LedgerTx, steps []step) error {
	f.moves = ledger.NewMoves()
	sns := make([]string, len(steps))
	for i, st := range steps {
		sns[i] = st.orderSN
	}
	rows, err := tx.Reservations(sns)
	if err != nil {
		return err
	}
	before := make(map[string]ledger.Row, len(rows))
	for sn, r := range rows {
		before[sn] = r
	}
	touched := map[string]bool{}
	var order []string
	for _, st := range steps {
		row, ok := rows[st.orderSN]
		if !ok && st.Present && st.Order != contract.OrderPaid {
			if !st.Tombstone && st.Order != contract.OrderRefunded { // neither has a claim to units
				f.unreserved = append(f.unreserved, st.orderSN)
			}
			continue
		}
		if !ok {
			f.missing = st.activityID
		}
		switch {
		case ok && st.Present && row.ActivityID != st.activityID:
			return errOtherActivity
		case ok && st.event != nil && !row.Same(st.event.UserID, st.event.ActivityID, st.event.Lines):
			f.addDeadLetter(st, "order_sn is known with another user, activity or lines")
			continue
		case !ok && st.Order == contract.OrderPaid:
			f.refunds = append(f.refunds, st.orderSN)
			continue
		case !ok:
			f.addDeadLetter(st, "the ledger has no such reservation")
			continue
		}
		rows[st.orderSN] = f.apply(row, st)
		if !touched[st.orderSN] {
			touched[st.orderSN] = true
			order = append(order, st.orderSN)
		}
	}
	for _, sn := range order {
		row, _ := f.moves.Rewrite(before[sn], rows[sn], f.now)
		f.rows = append(f.rows, row)
	}
	return nil
}

// apply returns the row after the step, and notes what follows from it.
func (f *following) apply(row ledger.Row, st step) ledger.Row {
	after := f.moves.Apply(row, st.Step, f.now)
	switch {
	case st.Order == contract.OrderPaid && !row.Holds() && !row.Refunded(): // refunded: its money is on its way back
		f.refunds = append(f.refunds, row.OrderSN)
	case st.Order == contract.OrderClosed && row.State == ledger.StateSold:
		f.contradicted = append(f.contradicted, row.OrderSN)
	case row.Holds() && !after.Holds():
		f.closed++
		if after.Reason == ledger.ReasonExpired && after.ExpiresAt != nil {
			f.lateness = max(f.lateness, f.now.Sub(*after.ExpiresAt))
		}
	}
	return after
}

func (f *following) addDeadLetter(st step, why string) {
	raw := []byte(st.orderSN)
	if st.event != nil {
		if b, err := json.Marshal(st.event); err == nil {
			raw = b
		}
	}
	d := contract.NewDeadLetter(f.where, f.topic, raw, why, f.now)
	d.OrderSN, d.ActivityID = st.orderSN, st.activityID // without an event the item is the order_sn alone
	f.moves.DeadLetters = append(f.moves.DeadLetters, d)
}
