package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	sweepBatch = 512 // orders read in one step of a sweep
	sweepSteps = 20  // steps of one sweep at most

	resendFirst, resendLast = 30 * time.Second, 10 * time.Minute

	// Of orders whose delayed closings may not be delivered, the sweep sends the first closings.
	overdueUnsent = time.Second

	providerBatch    = 64  // calls to providers in one step of a sweep
	providerCalls    = 4   // at the same time
	incidentAttempts = 5   // failed attempts after which a pending refund raises an incident
	incidentEvery    = 144 // failed attempts from one later incident to the next: a day with the longest pause
)

var errChangedMeanwhile = errors.New("an order was changed meanwhile")

// ResendClosings writes the closings of pending orders that are past their deadline by more than OverdueAfter to the
// outbox, since their delayed message was lost. While delayed closings may not be delivered, it does so for all orders
// past their deadline. Each order is checked again after a doubling back-off. It returns the number of orders.
//
// The row of the outbox stays until inventory has handled the closing, or the broker has it. Else the units of an order
// could stay reserved that inventory closed before it failed.
func (s *Service) ResendClosings(ctx context.Context) (int, error) {
	sent := 0
	after := s.opts.OverdueAfter
	if s.opts.ClosingsUnsent() {
		after = min(after, overdueUnsent)
	}
	for range sweepSteps {
		now, err := s.store.Now(ctx)
		if err != nil {
			return sent, err
		}
		overdue, err := s.store.OverdueOrders(ctx, now.Add(-after), sweepBatch)
		if err != nil {
			return sent, err
		}
		if len(overdue) == 0 {
			return sent, nil
		}
		mine, err := s.resend(ctx, overdue, now)
		if err != nil || !mine {
			return sent, err
		}
		sent += len(overdue)
		s.rec.ClosingsResent(ctx, len(overdue))
		if len(overdue) < sweepBatch {
			return sent, nil
		}
	}
	return sent, nil
}

// resend writes the closings of these orders and sets their next checks. It reports false, and changes nothing, if one
// of the orders is no longer as it was read: another process sends its closing, or it is not pending any more.
func (s *Service) resend(ctx context.Context, overdue []Order, now time.Time) (mine bool, err error) {
	byResends := map[int][]string{}
	for _, o := range overdue {
		byResends[o.CloseResends] = append(byResends[o.CloseResends], o.OrderSN)
	}
	err = s.store.InTx(ctx, "resend transaction", func(tx Tx) error {
		for _, n := range slices.Sorted(maps.Keys(byResends)) {
			next := now.Add(jitter(backoff(resendFirst, resendLast, n)))
			changed, err := tx.PostponeClosingCheck(byResends[n], n, next)
			if err != nil {
				return err
			}
			if changed < len(byResends[n]) {
				return errChangedMeanwhile
			}
		}
		for _, c := range closings(overdue) {
			for _, parent := range c.traceparents {
				c.Traceparent = cmp.Or(c.Traceparent, parent)
			}
			if err := tx.AddClosing(c.OrderClose); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errChangedMeanwhile) {
		return false, nil
	}
	return err == nil, err
}

// RefundDue makes one attempt at each due refund and returns their number. If the process is killed at any point, the
// attempt is repeated later under the same refund id.
func (s *Service) RefundDue(ctx context.Context) (int, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	due, err := s.store.DueRefunds(ctx, now, providerBatch)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	return len(due), each(due, func(r Refund) error { return s.attemptRefund(ctx, r) })
}

// each calls a provider for each of the items, for a few at the same time, and returns all errors.
func each[T any](items []T, call func(T) error) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fails []error
		next  = make(chan T)
	)
	for range min(providerCalls, len(items)) {
		wg.Go(func() {
			for item := range next {
				if err := call(item); err != nil {
					mu.Lock()
					fails = append(fails, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	wg.Wait()
	return errors.Join(fails...)
}

// attemptRefund makes one attempt at a refund. It returns an error only if the store fails or ctx ends. An error of
// the provider is stored with the refund.
func (s *Service) attemptRefund(ctx context.Context, r Refund) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// The claim lasts longer than the call, so that no other process calls the provider at the same time.
	pause := s.opts.RefundTimeout + jitter(backoff(s.opts.RefundFirstRetry, s.opts.RefundLastRetry, r.Attempts))
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	claimed, err := s.store.ClaimRefund(ctx, r, now.Add(pause))
	if err != nil || !claimed {
		return err
	}
	refundErr := s.callRefund(ctx, r)
	attempts := r.Attempts + 1
	switch {
	case refundErr == nil:
		return s.finishRefund(ctx, r, RefundDone, "")
	case ctx.Err() != nil: // the process is stopping: the provider did not fail
		return ctx.Err()
	case errors.Is(refundErr, ErrRefundDeclined):
		return s.finishRefund(ctx, r, RefundFailed, refundErr.Error())
	}
	if attempts == incidentAttempts || attempts%incidentEvery == 0 {
		s.rec.Incident(ctx, "refund_failing", "refund keeps failing and is retried",
			"payment_id", r.PaymentID, "order_sn", r.OrderSN, "provider", r.Provider, "error", refundErr.Error())
	}
	return s.store.StoreRefundError(ctx, r.PaymentID, refundErr.Error())
}

// errNoProvider is an error of the configuration. Such a refund stays pending until its provider is configured.
var errNoProvider = errors.New("payment provider is not configured")

func (s *Service) callRefund(ctx context.Context, r Refund) error {
	prov, ok := s.providers[r.Provider]
	if !ok {
		return fmt.Errorf("%w: %q", errNoProvider, r.Provider)
	}
	p, err := s.paymentOf(ctx, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.RefundTimeout)
	defer cancel()
	return prov.Refund(ctx, p)
}

// paymentOf returns the payment of a refund as its provider has taken it, the id that the provider gave it included.
func (s *Service) paymentOf(ctx context.Context, r Refund) (Payment, error) {
	p, _, err := s.store.Payment(ctx, r.PaymentID)
	p.PaymentID, p.OrderSN, p.Provider = r.PaymentID, r.OrderSN, r.Provider
	p.PaidAmount, p.PaidCurrency = r.Amount, r.Currency
	return p, err
}

func (s *Service) finishRefund(ctx context.Context, r Refund, to RefundState, lastError string) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	finished, err := s.store.FinishRefund(ctx, r.PaymentID, to, lastError, now)
	if err != nil {
		return err
	}
	if !finished {
		return s.checkSettled(ctx, r.PaymentID, to)
	}
	if to == RefundFailed {
		s.reportRefused(ctx, r, lastError)
		return nil
	}
	s.rec.Refund(ctx, to)
	return nil
}

func (s *Service) reportRefused(ctx context.Context, r Refund, why string) {
	s.rec.Refund(ctx, RefundFailed)
	s.rec.Incident(ctx, "refund_failed", "provider refused a refund: it waits for an operator",
		"payment_id", r.PaymentID, "order_sn", r.OrderSN, "provider", r.Provider, "error", why)
}

// checkSettled raises an incident if an operator settled a refund by hand while the provider made it.
func (s *Service) checkSettled(ctx context.Context, refundID string, to RefundState) error {
	if to != RefundDone {
		return nil
	}
	r, found, err := s.store.Refund(ctx, refundID)
	if err != nil || !found || r.Settled.Reference == "" {
		return err
	}
	s.rec.Incident(ctx, "refund_twice", "provider made a refund that an operator had settled: the money may have been "+
		"returned twice", "payment_id", r.PaymentID, "order_sn", r.OrderSN, "provider", r.Provider)
	return nil
}

// jitter returns a random duration from d to 1.25 d.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/4+1) //nolint:gosec // no secret depends on it
}
