// Package purchase provides buyers and what each of them does: request a path, reserve with it, poll the result, pay.
package purchase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
)

// Outcome is how an attempt to buy ended: Accepted, or the code of the refusal, or NoResponse.
type Outcome string

// Outcomes that are not codes of the interface.
const (
	Accepted   Outcome = "accepted"
	NoResponse Outcome = "no_answer"
)

// SoldOut is the refusal that most buyers of a good sale get.
const SoldOut = Outcome(contract.CodeSoldOut)

// Attempt is one attempt to buy and what came of it.
type Attempt struct {
	UserID      string
	Outcome     Outcome
	OrderSN     string // of an accepted one
	Err         error  // of all others
	PathTook    time.Duration
	ReserveTook time.Duration // 0 when it did not come to that
}

// Buy makes one attempt. A refusal of the moment (429, 503, a time-out) is repeated by the client; a sale that has not
// begun is waited for.
func Buy(ctx context.Context, c *client.Caller, userID, activityID string, lines []contract.Line) Attempt {
	a := Attempt{UserID: userID}
	began := time.Now()
	path, err := pressButton(ctx, c, activityID)
	a.PathTook = time.Since(began)
	if err != nil {
		a.Outcome, a.Err = outcomeOf(err), err
		return a
	}
	began = time.Now()
	r, err := c.Reserve(ctx, activityID, path.Path, lines)
	a.ReserveTook = time.Since(began)
	switch {
	case err != nil:
		a.Outcome, a.Err = outcomeOf(err), err
	case r.OrderSN != path.OrderSN:
		a.Outcome, a.Err = NoResponse, fmt.Errorf("the path was for order %s and the answer is for %s", path.OrderSN, r.OrderSN)
	case r.Status == client.Failed:
		a.Outcome, a.Err = Outcome(r.Reason), fmt.Errorf("order %s failed: %s", r.OrderSN, r.Reason)
	default:
		a.Outcome, a.OrderSN = Accepted, r.OrderSN
	}
	return a
}

func pressButton(ctx context.Context, c *client.Caller, activityID string) (client.Path, error) {
	for {
		path, err := c.NewPath(ctx, activityID)
		p := client.AsProblem(err)
		if p == nil || p.Code != contract.CodeActivityNotStarted {
			return path, err
		}
		// The services' clock decides, so this may wake a little early and ask again.
		if werr := pause(ctx, max(time.Until(p.StartsAt), 20*time.Millisecond)); werr != nil {
			return path, werr
		}
	}
}

func outcomeOf(err error) Outcome {
	if code := client.CodeOf(err); code != "" {
		return Outcome(code)
	}
	if p := client.AsProblem(err); p != nil {
		return Outcome(fmt.Sprintf("http_%d", p.Status))
	}
	return NoResponse
}

// ErrNotReached is returned by Await when its context ends before the awaited state.
var ErrNotReached = errors.New("awaited state not reached in time")

// Await polls until done is content with what it is told, slower and slower up to a second.
func Await[T any](ctx context.Context, ask func(context.Context) (T, error), done func(T) bool) (T, error) {
	wait := 50 * time.Millisecond
	for {
		v, err := ask(ctx)
		if err == nil && done(v) {
			return v, nil
		}
		if perr := pause(ctx, wait/2+rand.N(wait)); perr != nil { //nolint:gosec // no secret depends on it
			if err != nil {
				return v, fmt.Errorf("%w: %w", ErrNotReached, err)
			}
			return v, ErrNotReached
		}
		wait = min(wait*3/2, time.Second)
	}
}

// Pay starts a payment and lets the sandbox provider report its success.
func Pay(ctx context.Context, c *client.Caller, orderSN string) error {
	payment, err := c.StartPayment(ctx, orderSN, "pay-"+orderSN)
	if err != nil {
		return err
	}
	return c.SucceedPayment(ctx, payment.PaymentID)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
