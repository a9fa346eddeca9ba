package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"flashsale.internal/pkg/contract"
)

// Land turns one message of deductions into orders: one transaction, then what follows is published. It may be called
// again with the same message at any time and then says the same again. bad are items that could not be read.
//
// An error is transient and means that the message has to come again as it is. What can never land becomes a dead
// letter by itself and does not hold up the rest.
func (s *Service) Land(ctx context.Context, items []contract.Deduction, bad []contract.BadItem) error {
	letters := make([]contract.DeadLetter, 0, len(bad))
	for _, b := range bad {
		letters = append(letters, s.deadLetter(b.Raw, b.Err.Error()))
	}
	wanted := make(map[string]contract.Deduction, len(items))
	order := make([]string, 0, len(items)) // as they came
	for _, d := range items {
		if err := s.usable(d); err != nil {
			letters = append(letters, s.dead(d, err.Error()))
			continue
		}
		if first, twice := wanted[d.OrderSN]; twice {
			if !sameDeduction(first, d) {
				letters = append(letters, s.dead(d, "the order_sn came twice with different contents"))
			}
			continue
		}
		wanted[d.OrderSN] = d
		order = append(order, d.OrderSN)
	}

	var fresh, known []Order
	var conflicts []contract.Deduction
	if len(order) > 0 {
		land := func(tx Tx, look bool) error {
			fresh, known, conflicts = nil, nil, nil
			var existing map[string]Order
			if look {
				var err error
				if existing, err = tx.LockOrders(order); err != nil {
					return err
				}
			}
			now := s.now()
			for _, sn := range order {
				d := wanted[sn]
				o, found := existing[sn]
				switch {
				case !found:
					o, err := newOrder(d, now)
					if err != nil {
						return err
					}
					fresh = append(fresh, o)
				case o.Tombstone: // told "unknown" for ever: no order, and nothing more to say
				case sameOrder(o, d):
					known = append(known, o)
				default:
					conflicts = append(conflicts, d)
				}
			}
			if len(fresh) == 0 {
				return nil
			}
			err := tx.InsertOrders(fresh)
			if look && errors.Is(err, ErrOrderExists) {
				return ErrRetry
			}
			return err
		}
		// Nearly every message comes once, so the first transaction does not look for its orders: where one exists the
		// insertion fails on its key, and another transaction looks. That saves a statement for each shard. It is no
		// repetition of the first one, as a message that comes again is no race that was lost.
		err := s.store.InTx(ctx, "orders transaction", func(tx Tx) error { return land(tx, false) })
		if errors.Is(err, ErrOrderExists) {
			err = s.store.InTx(ctx, "orders transaction", func(tx Tx) error { return land(tx, true) })
		}
		if err != nil {
			return err
		}
		s.rec.Created(ctx, len(fresh))
	}
	for _, d := range conflicts {
		letters = append(letters, s.dead(d, "the order exists with another user, activity or lines"))
	}
	return s.tellLanded(ctx, fresh, known, letters)
}

// tellLanded publishes what follows from a landed message. A known order is told again as it stands now, with its end
// if it has one: whoever asks again may have lost any of it.
func (s *Service) tellLanded(ctx context.Context, fresh, known []Order, letters []contract.DeadLetter) error {
	events := make([]contract.OrderEvent, 0, len(fresh)+len(known))
	pending := make([]Order, 0, len(fresh)+len(known))
	for _, o := range append(fresh, known...) {
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
	for _, c := range closings(pending) {
		if err := s.pub.Close(ctx, c.OrderClose, c.traceparents, c.DueAt); err != nil {
			return fmt.Errorf("publish closing: %w", err)
		}
	}
	if len(letters) > 0 {
		if err := s.pub.DeadLetters(ctx, letters); err != nil {
			return fmt.Errorf("publish dead letters: %w", err)
		}
		for _, l := range letters {
			s.rec.Alarm(ctx, "dead_letter", "A deduction can never become an order", "order_sn", l.OrderSN,
				"activity_id", l.ActivityID, "why", l.Why)
		}
	}
	return nil
}

// usable tells why a deduction that is well formed can still never become an order.
func (s *Service) usable(d contract.Deduction) error {
	if d.Bucket > math.MaxInt32 {
		return fmt.Errorf("bucket: out of range")
	}
	if !s.shards.Belongs(d.OrderSN, d.UserID) {
		return fmt.Errorf("order_sn: is not one of this user's")
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
		OrderSN: d.OrderSN, UserID: d.UserID, ActivityID: d.ActivityID, Bucket: d.Bucket, State: Pending,
		Lines: d.Lines, Amount: amount, Currency: d.Currency, Traceparent: d.Traceparent,
		CreatedAt: now, ExpiresAt: now.Add(time.Duration(d.PayWithinS) * time.Second),
	}, nil
}

// closing is one delayed message and the traceparents of its orders, which it closes in one go.
type closing struct {
	contract.OrderClose
	traceparents []string
}

// closings groups orders into delayed messages: one for all that share activity and deadline.
func closings(orders []Order) []closing {
	type group struct {
		activityID string
		due        time.Time
	}
	at := map[group]int{} // the message being filled
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

func (s *Service) dead(d contract.Deduction, why string) contract.DeadLetter {
	raw, err := json.Marshal(d)
	if err != nil { // a struct of strings and numbers
		raw = []byte(`{"order_sn":"` + d.OrderSN + `"}`)
	}
	return s.deadLetter(raw, why)
}

func (s *Service) deadLetter(raw []byte, why string) contract.DeadLetter {
	return contract.NewDeadLetter(contract.GroupOrderDeductions, contract.TopicDeductions, raw, why, s.now())
}
