package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
)

// Land turns one message of deductions into orders in one transaction, then publishes the messages that follow from
// it. It is idempotent: a repeated call with the same message publishes the same events. about describes the
// activities when the deductions were published; the orders keep that. bad are items that could not be parsed.
//
// An error is transient, and the whole message must be redelivered. An item that can never become an order becomes a
// dead letter and does not delay the others.
func (s *Service) Land(
	ctx context.Context, items []contract.Deduction, about []contract.ActivityInfo, bad []contract.BadItem,
) error {
	described, err := s.describe(ctx, about)
	if err != nil {
		return err
	}
	valid, deadLetters := s.classify(items, bad)
	var landed landing
	if len(valid) > 0 {
		if landed, err = s.insertOrders(ctx, valid, described); err != nil {
			return err
		}
		s.rec.Created(ctx, len(landed.fresh), landed.lags)
	}
	for _, d := range landed.conflicts {
		deadLetters = append(deadLetters, s.deadLetterOf(d, "the order exists with another user, activity or lines"))
	}
	return s.publishLanded(ctx, landed, deadLetters)
}

// classify returns the deductions of a message that can become orders, each order_sn once, in the message's order. It
// returns a dead letter for each other item, except for repetitions of a deduction.
func (s *Service) classify(
	items []contract.Deduction, bad []contract.BadItem,
) ([]contract.Deduction, []contract.DeadLetter) {
	deadLetters := make([]contract.DeadLetter, 0, len(bad))
	for _, b := range bad {
		deadLetters = append(deadLetters, s.deadLetter(b.Raw, b.Err.Error()))
	}
	valid := make([]contract.Deduction, 0, len(items))
	index := make(map[string]int, len(items)) // of valid, by order_sn
	for _, d := range items {
		if err := s.checkDeduction(d); err != nil {
			deadLetters = append(deadLetters, s.deadLetterOf(d, err.Error()))
			continue
		}
		if i, repeated := index[d.OrderSN]; repeated {
			if !sameDeduction(valid[i], d) {
				deadLetters = append(deadLetters,
					s.deadLetterOf(d, "the message has two different deductions for this order_sn"))
			}
			continue
		}
		index[d.OrderSN] = len(valid)
		valid = append(valid, d)
	}
	return valid, deadLetters
}

// landing is the result of a transaction that inserted orders.
type landing struct {
	fresh     []Order              // inserted
	lags      []time.Duration      // of those: from the reservation to the creation, as far as it is known
	known     []Order              // existed with the same contents
	conflicts []contract.Deduction // an order with other contents exists
	never     []Order              // tombstones exist: to be closed now
}

// insertOrders inserts the orders that do not exist yet.
//
// Nearly every message is delivered once, so the first transaction does not read the orders, which saves a statement.
// If one of them exists, the insertion fails on its primary key, and a second transaction reads and locks them first. The
// second transaction is not a retry of the first: a redelivered message must not count as a lost race.
func (s *Service) insertOrders(
	ctx context.Context, valid []contract.Deduction, described map[string]time.Time,
) (landed landing, err error) {
	err = s.store.InTx(ctx, "orders transaction", func(tx Tx) (err error) {
		landed, err = s.insertMissing(tx, valid, described, nil)
		return err
	})
	if !errors.Is(err, ErrOrderExists) {
		return landed, err
	}
	sns := make([]string, len(valid))
	for i, d := range valid {
		sns[i] = d.OrderSN
	}
	err = s.store.InTx(ctx, "orders transaction", func(tx Tx) error {
		existing, err := tx.LockOrders(sns)
		if err != nil {
			return err
		}
		landed, err = s.insertMissing(tx, valid, described, existing)
		if errors.Is(err, ErrOrderExists) { // inserted after LockOrders
			return ErrRetry
		}
		return err
	})
	return landed, err
}

// insertMissing inserts an order for each deduction that is not in existing, by order_sn.
func (s *Service) insertMissing(
	tx Tx, valid []contract.Deduction, described map[string]time.Time, existing map[string]Order,
) (landing, error) {
	var landed landing
	now, err := tx.Now()
	if err != nil {
		return landing{}, err
	}
	for _, d := range valid {
		o, found := existing[d.OrderSN]
		switch {
		case !found:
			o, err := newOrder(d, now)
			if err != nil {
				return landing{}, err
			}
			o.DescribedAt = described[d.ActivityID]
			landed.fresh = append(landed.fresh, o)
			if !d.ReservedAt.IsZero() {
				landed.lags = append(landed.lags, now.Sub(d.ReservedAt))
			}
		case o.Tombstone:
			landed.never = append(landed.never, Order{
				OrderSN: d.OrderSN, ActivityID: d.ActivityID, Traceparent: d.Traceparent, ExpiresAt: now,
			})
		case sameOrder(o, d):
			landed.known = append(landed.known, o)
		default:
			landed.conflicts = append(landed.conflicts, d)
		}
	}
	if len(landed.fresh) == 0 {
		return landed, nil
	}
	return landed, tx.InsertOrders(landed.fresh)
}

// publishLanded publishes the messages that follow from a landed message. For a known order it publishes its present
// state, with its later transition if there is one: an earlier delivery may have failed before it published any of
// them. For a tombstone it publishes a closing. A deduction that comes so late was sent again by inventory, which may have
// ended between the tombstone and the release of the units: by the closing it calls order once more.
func (s *Service) publishLanded(ctx context.Context, landed landing, deadLetters []contract.DeadLetter) error {
	orders := slices.Concat(landed.fresh, landed.known)
	events := make([]contract.OrderEvent, 0, len(orders))
	pending := landed.never
	for _, o := range orders {
		events = append(events, o.events()...)
		if o.State == Pending {
			pending = append(pending, o)
		}
	}
	if len(events) > 0 {
		if err := s.pub.Events(ctx, events); err != nil {
			return fmt.Errorf("publish order events: %w", err)
		}
	}
	if err := s.publishClosings(ctx, pending); err != nil {
		return err
	}
	if len(deadLetters) > 0 {
		if err := s.pub.DeadLetters(ctx, deadLetters); err != nil {
			return fmt.Errorf("publish dead letters: %w", err)
		}
		for _, d := range deadLetters {
			s.rec.Incident(ctx, "dead_letter", "deduction can never become an order", "order_sn", d.OrderSN,
				"activity_id", d.ActivityID, "why", d.Why)
		}
	}
	return nil
}

// publishClosings publishes the delayed closings of pending orders. The delays are those that are left by the time of
// the database.
func (s *Service) publishClosings(ctx context.Context, pending []Order) error {
	if len(pending) == 0 {
		return nil
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	began := s.opts.Now()
	for _, c := range closings(pending) {
		left := c.DueAt.Sub(now) - s.opts.Now().Sub(began)
		if err := s.pub.Close(ctx, c.OrderClose, c.traceparents, left); err != nil {
			return fmt.Errorf("publish closing: %w", err)
		}
	}
	return nil
}

// checkDeduction returns an error for a well-formed deduction that can never become an order.
func (s *Service) checkDeduction(d contract.Deduction) error {
	if !s.genes.Belongs(d.OrderSN, d.UserID) {
		return fmt.Errorf("order_sn: does not carry the gene of this user")
	}
	_, err := AmountOf(d.Lines)
	return err
}

func newOrder(d contract.Deduction, now time.Time) (Order, error) {
	amount, err := AmountOf(d.Lines)
	if err != nil {
		return Order{}, err
	}
	return Order{
		OrderSN: d.OrderSN, UserID: d.UserID, ActivityID: d.ActivityID, State: Pending,
		Lines: d.Lines, Amount: amount, Currency: d.Currency, Traceparent: d.Traceparent,
		CreatedAt: now, ExpiresAt: now.Add(time.Duration(d.PayWithinS) * time.Second),
	}, nil
}

// closing is one delayed message, which closes all its orders, and the traceparents of these orders.
type closing struct {
	contract.OrderClose
	traceparents []string
}

// closings groups orders into delayed messages: one for all orders with the same activity and deadline, at most
// contract.MaxItems orders each.
func closings(orders []Order) []closing {
	type group struct {
		activityID string
		due        time.Time
	}
	at := map[group]int{} // index in all of the last message of the group
	var all []closing
	for _, o := range orders {
		g := group{o.ActivityID, o.ExpiresAt}
		i, ok := at[g]
		if !ok || len(all[i].OrderSNs) == contract.MaxItems {
			i = len(all)
			at[g] = i
			all = append(all, closing{OrderClose: contract.OrderClose{ActivityID: o.ActivityID, DueAt: o.ExpiresAt}})
		}
		all[i].OrderSNs = append(all[i].OrderSNs, o.OrderSN)
		all[i].traceparents = append(all[i].traceparents, o.Traceparent)
	}
	return all
}

// deadLetterOf returns the dead letter of a parsed deduction.
func (s *Service) deadLetterOf(d contract.Deduction, why string) contract.DeadLetter {
	raw, err := json.Marshal(d)
	if err != nil { // not possible for a struct of strings and numbers
		raw = []byte(`{"order_sn":"` + d.OrderSN + `"}`)
	}
	return s.deadLetter(raw, why)
}

// deadLetter is cut, since it reaches inventory as a message.
func (s *Service) deadLetter(raw []byte, why string) contract.DeadLetter {
	return contract.NewDeadLetter(contract.GroupOrderDeductions, contract.TopicDeductions, raw, why, s.now()).Cut()
}
