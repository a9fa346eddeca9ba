package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	sweepBatch = 512 // orders read in one step of a sweep
	sweepSteps = 20  // steps of one sweep at most

	resendFirst, resendLast = 30 * time.Second, 10 * time.Minute

	// Of orders whose delayed closings may not be delivered, the sweep sends the first closings.
	overdueUnsent = time.Second

	maxUnconfirmed = 4096 // closings whose publication failed and that are kept

	refundBatch   = 64
	refundWorkers = 4
	alarmAttempts = 5   // failed attempts after which a pending refund raises an alarm
	alarmEvery    = 144 // failed attempts from one later alarm to the next: a day with the longest pause
)

// ResendClosings publishes again the closings of pending orders that are past their deadline by more than
// OverdueAfter, since their delayed message was lost. It checks each order again after a doubling back-off. While
// delayed closings may not be delivered, it publishes the closings of all orders past their deadline, and the back-off
// does not grow: a closing that came too early is not followed by a delayed one. It returns the number of orders whose
// closing it published.
//
// A closing whose publication failed is published again first, whatever the state of its orders is. Without a broker,
// inventory may have closed the orders, and then failed before it restored their units. Closings that a killed process
// had kept are replaced by inventory's sweep of overdue reservations.
func (s *Service) ResendClosings(ctx context.Context) (int, error) {
	if err := s.publishUnconfirmed(ctx); err != nil {
		return 0, err
	}
	sent := 0
	after, last := s.opts.OverdueAfter, resendLast
	if s.opts.ClosingsUnsent() {
		after, last = min(after, overdueUnsent), resendFirst
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
		for _, c := range closings(overdue) {
			if err := s.publishDue(ctx, c); err != nil {
				return sent, err
			}
		}
		byResends := map[int][]string{}
		for _, o := range overdue {
			byResends[o.CloseResends] = append(byResends[o.CloseResends], o.OrderSN)
		}
		for n, sns := range byResends {
			next := now.Add(jitter(backoff(resendFirst, last, n)))
			if err := s.store.PostponeClosingCheck(ctx, sns, next); err != nil {
				return sent, err
			}
		}
		sent += len(overdue)
		s.rec.ClosingsResent(ctx, len(overdue))
		if len(overdue) < sweepBatch {
			return sent, nil
		}
	}
	return sent, nil
}

// publishDue publishes a due closing. It keeps one whose publication fails.
func (s *Service) publishDue(ctx context.Context, c closing) error {
	err := s.pub.Close(ctx, c.OrderClose, c.traceparents, 0)
	if err == nil {
		return nil
	}
	s.unconfirmedLock.Lock()
	defer s.unconfirmedLock.Unlock()
	if len(s.unconfirmed) < maxUnconfirmed {
		s.unconfirmed = append(s.unconfirmed, c)
	}
	return fmt.Errorf("publish closing: %w", err)
}

// publishUnconfirmed publishes the closings whose publication failed, until one fails again.
func (s *Service) publishUnconfirmed(ctx context.Context) error {
	s.unconfirmedLock.Lock()
	kept := s.unconfirmed
	s.unconfirmed = nil
	s.unconfirmedLock.Unlock()
	for i, c := range kept {
		if err := s.publishDue(ctx, c); err != nil {
			s.unconfirmedLock.Lock()
			defer s.unconfirmedLock.Unlock()
			s.unconfirmed = append(s.unconfirmed, kept[i+1:]...)
			return err
		}
	}
	return nil
}

// RefundDue makes one attempt at each due refund and returns their number. If the process is killed at any point, the
// attempt is repeated later under the same refund id.
func (s *Service) RefundDue(ctx context.Context) (int, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	due, err := s.store.DueRefunds(ctx, now, refundBatch)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fails []error
		next  = make(chan Refund)
	)
	for range min(refundWorkers, len(due)) {
		wg.Go(func() {
			for r := range next {
				if err := s.attemptRefund(ctx, r); err != nil {
					mu.Lock()
					fails = append(fails, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, r := range due {
		next <- r
	}
	close(next)
	wg.Wait()
	return len(due), errors.Join(fails...)
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
	if attempts == alarmAttempts || attempts%alarmEvery == 0 {
		s.rec.Alarm(ctx, "refund_failing", "refund keeps failing and is retried",
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
	ctx, cancel := context.WithTimeout(ctx, s.opts.RefundTimeout)
	defer cancel()
	return prov.Refund(ctx, r.PaymentID, r.Amount, r.Currency)
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
	s.rec.Refund(ctx, to)
	if to == RefundFailed {
		s.rec.Alarm(ctx, "refund_failed", "provider refused a refund: it waits for an operator",
			"payment_id", r.PaymentID, "order_sn", r.OrderSN, "provider", r.Provider, "error", lastError)
	}
	return nil
}

// checkSettled raises an alarm if an operator settled a refund by hand while the provider made it.
func (s *Service) checkSettled(ctx context.Context, refundID string, to RefundState) error {
	if to != RefundDone {
		return nil
	}
	r, found, err := s.store.Refund(ctx, refundID)
	if err != nil || !found || r.Settled.Reference == "" {
		return err
	}
	s.rec.Alarm(ctx, "refund_twice", "provider made a refund that an operator had settled: the money may have been "+
		"returned twice", "payment_id", r.PaymentID, "order_sn", r.OrderSN, "provider", r.Provider)
	return nil
}

// jitter returns a random duration from d to 1.25 d.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/4+1) //nolint:gosec // no secret depends on it
}
