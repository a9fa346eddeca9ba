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
	sweepBatch = 512 // orders looked at in one step of a sweep
	sweepSteps = 20  // steps of one sweep

	resendFirst, resendLast = 30 * time.Second, 10 * time.Minute

	refundBatch   = 64
	refundWorkers = 4
	alarmAttempts = 5 // failed attempts after which a refund is worth a person's look
)

// ResendClosings publishes again the closings of pending orders that are past their deadline for longer than OverdueAfter:
// the delayed message was lost. Each order is looked at again after a doubling back-off. It tells how many it sent for.
func (s *Service) ResendClosings(ctx context.Context) (int, error) {
	sent := 0
	for range sweepSteps {
		now := s.now()
		late, err := s.store.OverdueOrders(ctx, now.Add(-s.opts.OverdueAfter), sweepBatch)
		if err != nil {
			return sent, err
		}
		if len(late) == 0 {
			return sent, nil
		}
		for _, c := range closings(late) {
			if err := s.pub.Close(ctx, c.OrderClose, c.traceparents, time.Time{}); err != nil {
				return sent, fmt.Errorf("publish closing: %w", err)
			}
		}
		byResends := map[int][]string{}
		for _, o := range late {
			byResends[o.CloseResends] = append(byResends[o.CloseResends], o.OrderSN)
		}
		for n, sns := range byResends {
			if err := s.store.PostponeClosingCheck(ctx, sns, now.Add(jitter(doubling(resendFirst, resendLast, n)))); err != nil {
				return sent, err
			}
		}
		sent += len(late)
		s.rec.ClosingsResent(ctx, len(late))
		if len(late) < sweepBatch {
			return sent, nil
		}
	}
	return sent, nil
}

// RefundDue makes one attempt at each refund that is due and tells how many it tried. Killed anywhere, the attempt is
// made again later under the same refund id.
func (s *Service) RefundDue(ctx context.Context) (int, error) {
	due, err := s.store.DueRefunds(ctx, s.now(), refundBatch)
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

// attemptRefund returns an error only when the store fails it; what the provider says is kept with the refund.
func (s *Service) attemptRefund(ctx context.Context, r Refund) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// The claim outlasts the call, so that nobody else makes one meanwhile.
	pause := s.opts.RefundTimeout + jitter(doubling(s.opts.RefundFirstRetry, s.opts.RefundLastRetry, r.Attempts))
	mine, err := s.store.ClaimRefund(ctx, r, s.now().Add(pause))
	if err != nil || !mine {
		return err
	}
	said := s.callRefund(ctx, r)
	attempts := r.Attempts + 1
	switch {
	case said == nil:
		return s.finishRefund(ctx, r, RefundDone, "")
	case ctx.Err() != nil: // stopped, not refused
		return ctx.Err()
	case errors.Is(said, ErrRefundDeclined), attempts >= s.opts.RefundAttempts && !errors.Is(said, errNoProvider):
		return s.finishRefund(ctx, r, RefundFailed, said.Error())
	}
	if attempts == alarmAttempts {
		s.rec.Alarm(ctx, "refund_failing", "A refund keeps failing and is tried on", "payment_id", r.PaymentID,
			"order_sn", r.OrderSN, "provider", r.Provider, "error", said.Error())
	}
	return s.store.NoteRefundError(ctx, r.PaymentID, said.Error())
}

// errNoProvider is a fault of the set-up, not the provider's word: the refund waits for as long as it lasts.
var errNoProvider = errors.New("the provider is not set up")

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
	finished, err := s.store.FinishRefund(ctx, r.PaymentID, to, lastError, s.now())
	if err != nil || !finished {
		return err
	}
	s.rec.Refund(ctx, to)
	if to == RefundFailed {
		s.rec.Alarm(ctx, "refund_failed", "A refund was given up: a person has to give the money back", "payment_id", r.PaymentID,
			"order_sn", r.OrderSN, "provider", r.Provider, "error", lastError)
	}
	return nil
}

// jitter spreads d over d to 1.25 d.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d/4+1) //nolint:gosec // no secret depends on it
}
