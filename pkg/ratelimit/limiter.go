package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limiter is one limit for any number of keys. All methods are safe for concurrent use.
type Limiter interface {
	// Take decides about a request and charges the key if it grants. A refusal is not an error. Errors are a negative
	// cost, context.Cause(ctx) if ctx ended before Redis decided, and ErrUnavailable (with a refusing Result) if Redis is
	// unreachable and the limiter fails closed.
	Take(ctx context.Context, r Request) (Result, error)
	// Refund returns the permits that a Take of the same key granted, as far as they have not been earned again: permits
	// whose window has ended, and those of an earlier Spec, are not refunded. See README.md.
	Refund(ctx context.Context, key string, granted Result) error
	// Reset removes what the key has spent.
	Reset(ctx context.Context, key string) error
	// Spec returns the current Spec, with defaults filled in.
	Spec() Spec
	// SetSpec changes the limit at run time. Spent permits are carried over according to Spec.Inherit if the algorithm
	// stays the same, and between TokenBucket, GCRA, LeakyBucket and LeakyQueue. Any other change of the algorithm
	// starts with nothing spent.
	SetSpec(s Spec) error
}

// Allow takes one permit.
func Allow(ctx context.Context, l Limiter, key string) (Result, error) {
	return l.Take(ctx, Request{Key: key, N: 1})
}

// Peek returns the state of a key and takes nothing. If no permit is available, Remaining is 0 and RetryAfter is the
// time until one is.
func Peek(ctx context.Context, l Limiter, key string) (Result, error) {
	return l.Take(ctx, Request{Key: key})
}

// Reservation is a grant of permits that may be used at a later time. It is not safe for concurrent use.
type Reservation struct {
	Result
	limiter Limiter
	key     string
	start   time.Time
}

// Delay returns the remaining wait.
func (r *Reservation) Delay() time.Duration { return max(0, r.Wait-time.Since(r.start)) }

// Cancel refunds the permits. Later reservations keep their times; the refunded permits go to the next request. A
// second call does nothing.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.Granted == 0 {
		return nil
	}
	granted := r.Result
	r.Granted = 0
	return r.limiter.Refund(ctx, r.key, granted)
}

// Reserve takes n permits that will be available within maxWait. The caller waits for Delay before it continues, or
// cancels. It returns ErrLimited if the permits are not available in time and ErrCostExceedsBurst if they never are;
// nothing is charged then.
func Reserve(ctx context.Context, l Limiter, key string, n int64, maxWait time.Duration) (*Reservation, error) {
	if !l.Spec().Algorithm.Reserves() {
		return nil, fmt.Errorf("%w: %s", ErrNoReservation, l.Spec().Algorithm)
	}
	start := time.Now()
	res, err := l.Take(ctx, Request{Key: key, N: n, MaxWait: maxWait})
	switch {
	case err != nil:
		return nil, err
	case res.Allowed:
		return &Reservation{Result: res, limiter: l, key: key, start: start}, nil
	case res.RetryAfter == Never:
		return nil, ErrCostExceedsBurst
	default:
		return nil, fmt.Errorf("%w for %s", ErrLimited, res.RetryAfter)
	}
}

// refundTime bounds refunds on behalf of a caller whose context has ended.
const refundTime = time.Second

// Wait takes n permits and returns when they may be used, within maxWait. It decides whether that is possible before
// it sleeps. If ctx ends during the wait, the permits are refunded. Windows take no reservations: there Wait retries
// when the window allows it, and may lose against later callers.
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
