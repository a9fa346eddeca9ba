package core

import (
	"context"
	"fmt"
	"time"
)

// cancelAttempts bounds the calls that request a provider to end a payment, over some 40 minutes: by then a payment has
// ended by itself, and a late one is refunded in any case.
const cancelAttempts = 12

// CancelDue requests the providers to end the payments of closed orders, once for each that is due, and returns their
// number. If the process is killed at any point, the call is repeated later.
func (s *Service) CancelDue(ctx context.Context) (int, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	due, err := s.store.DueCancels(ctx, now, providerBatch)
	if err != nil {
		return 0, err
	}
	return len(due), each(due, func(p Payment) error { return s.cancelPayment(ctx, p) })
}

// cancelPayment makes one attempt. It returns an error only if the store fails or ctx ends.
func (s *Service) cancelPayment(ctx context.Context, p Payment) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	// The claim lasts longer than the call, so that no other process calls the provider at the same time.
	pause := s.opts.RefundTimeout + jitter(backoff(s.opts.RefundFirstRetry, s.opts.RefundLastRetry, p.CancelAttempts))
	next := now.Add(pause).Truncate(time.Millisecond)
	claimed, err := s.store.ClaimCancel(ctx, p, next)
	if err != nil || !claimed {
		return err
	}
	p.CancelAt, p.CancelAttempts = next, p.CancelAttempts+1
	err = s.callCancel(ctx, p)
	switch {
	case err == nil:
		return s.store.EndCancel(ctx, p)
	case ctx.Err() != nil: // the process is stopping: the provider did not fail
		return ctx.Err()
	case p.CancelAttempts < cancelAttempts:
		return nil
	}
	s.rec.Incident(ctx, "cancel_failing", "provider does not end the payment of a closed order; a late success is refunded",
		"payment_id", p.PaymentID, "order_sn", p.OrderSN, "provider", p.Provider, "error", err.Error())
	return s.store.EndCancel(ctx, p)
}

func (s *Service) callCancel(ctx context.Context, p Payment) error {
	prov, ok := s.providers[p.Provider]
	switch {
	case p.State == PaymentSucceeded:
		return nil
	case !ok:
		return fmt.Errorf("%w: %q", errNoProvider, p.Provider)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.RefundTimeout)
	defer cancel()
	return prov.Cancel(ctx, p)
}
