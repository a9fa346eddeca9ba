package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limiter is one limit for any number of keys. All methods may be called by many goroutines.
type Limiter interface {
	// Take decides, and charges the key if it grants. A refusal is not an error: errors are a cost below 0 and, if Redis
	// is gone and the limiter fails closed, ErrUnavailable (with a Result that says no).
	Take(ctx context.Context, r Request) (Result, error)
	// Refund gives back what a Take of the same key granted. Permits whose window is over are gone anyway.
	Refund(ctx context.Context, key string, granted Result) error
	// Reset forgets what the key has spent.
	Reset(ctx context.Context, key string) error
	// Spec is what holds now, defaults filled in.
	Spec() Spec
	// SetSpec changes the limit while it runs. What is spent stays spent, as Spec.Inherit says; only a change between
	// algorithms with another idea of time (a window and a bucket) begins anew.
	SetSpec(s Spec) error
}

// Allow takes one permit.
func Allow(ctx context.Context, l Limiter, key string) (Result, error) {
	return l.Take(ctx, Request{Key: key, N: 1})
}

// Peek tells how things stand and takes nothing. Remaining is 0 and RetryAfter is set if one permit could not be had.
func Peek(ctx context.Context, l Limiter, key string) (Result, error) {
	return l.Take(ctx, Request{Key: key})
}

// Reservation is permits for a moment that comes. Not safe for concurrent use.
type Reservation struct {
	Result
	limiter Limiter
	key     string
	begun   time.Time
}

// Delay is how long there still is to wait.
func (r *Reservation) Delay() time.Duration { return max(0, r.Wait-time.Since(r.begun)) }

// Cancel gives the permits back. Whoever reserved after this one keeps the moment he was told: the permits serve who comes
// next. A second call does nothing.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.Granted == 0 {
		return nil
	}
	granted := r.Result
	r.Granted = 0
	return r.limiter.Refund(ctx, r.key, granted)
}

// Reserve takes n permits that will be there within maxWait. The caller waits for Delay before it goes on, or cancels.
// ErrLimited if they will not be there in time, ErrCostExceedsBurst if they never will; nothing is charged then.
func Reserve(ctx context.Context, l Limiter, key string, n int64, maxWait time.Duration) (*Reservation, error) {
	if !l.Spec().Algorithm.Reserves() {
		return nil, fmt.Errorf("%w: %s", ErrNoReservation, l.Spec().Algorithm)
	}
	begun := time.Now()
	res, err := l.Take(ctx, Request{Key: key, N: n, MaxWait: maxWait})
	switch {
	case err != nil:
		return nil, err
	case res.Allowed:
		return &Reservation{Result: res, limiter: l, key: key, begun: begun}, nil
	case res.RetryAfter == Never:
		return nil, ErrCostExceedsBurst
	default:
		return nil, fmt.Errorf("%w for %s", ErrLimited, res.RetryAfter)
	}
}

// refundTime bounds what is done for a caller who has gone.
const refundTime = time.Second

// Wait takes n permits and returns when they may be used, within maxWait; it decides before it sleeps whether that is
// possible. A caller who goes away while he waits gets his permits refunded. Windows take no reservations: there Wait asks
// again when the window says so, and may lose against others who came later.
func Wait(ctx context.Context, l Limiter, key string, n int64, maxWait time.Duration) (Result, error) {
	deadline := time.Now().Add(maxWait)
	for {
		res, err := l.Take(ctx, Request{Key: key, N: n, MaxWait: max(0, time.Until(deadline))})
		if err != nil {
			return res, err
		}
		if res.Allowed {
			return res, sleepOrRefund(ctx, l, key, res)
		}
		switch {
		case res.RetryAfter == Never:
			return res, ErrCostExceedsBurst
		case l.Spec().Algorithm.Reserves() || res.RetryAfter > time.Until(deadline):
			return res, fmt.Errorf("%w for %s", ErrLimited, res.RetryAfter)
		}
		if err := sleep(ctx, res.RetryAfter); err != nil {
			return res, err
		}
	}
}

func sleepOrRefund(ctx context.Context, l Limiter, key string, res Result) error {
	err := sleep(ctx, res.Wait)
	if err == nil {
		return nil
	}
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	return errors.Join(err, l.Refund(rctx, key, res))
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
