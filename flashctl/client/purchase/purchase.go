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

// Outcome is the outcome of an attempt to buy: Accepted, the code of the refusal, or NoResponse.
type Outcome string

// Outcomes that are not error codes of the API.
const (
	Accepted   Outcome = "accepted"
	NoResponse Outcome = "no_answer"
)

// SoldOut is the refusal of a purchase of a sold-out sale.
const SoldOut = Outcome(contract.CodeSoldOut)

// Attempt is one attempt to buy and its outcome.
type Attempt struct {
	UserID      string
	Outcome     Outcome
	OrderSN     string // set if accepted
	Err         error  // set unless accepted
	PathTook    time.Duration
	ReserveTook time.Duration // 0 if no path was issued
}

// Buy makes one attempt to buy. The client retries after temporary refusals (429, 503, a time-out). If the sale has
// not started, Buy waits for its start.
func Buy(ctx context.Context, c *client.Caller, userID, activityID string, lines []contract.Line) Attempt {
	return BuyWith(ctx, c, userID, activityID, "", lines)
}

// BuyWith is Buy with a ticket of the waiting room.
func BuyWith(
	ctx context.Context, c *client.Caller, userID, activityID, ticket string, lines []contract.Line,
) Attempt {
	a := Attempt{UserID: userID}
	began := time.Now()
	path, err := newPath(ctx, c, activityID, ticket)
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
		a.Outcome = NoResponse
		a.Err = fmt.Errorf("the path is for order %s, but the response is for %s", path.OrderSN, r.OrderSN)
	case r.Status == client.Failed:
		a.Outcome, a.Err = Outcome(r.Reason), fmt.Errorf("order %s failed: %s", r.OrderSN, r.Reason)
	default:
		a.Outcome, a.OrderSN = Accepted, r.OrderSN
	}
	return a
}

// newPath requests a path. It waits for the start of the sale if necessary, and joins a waiting room, in which the client
// waits by repeating the request. It solves a proof of work where the sale has a challenge.
func newPath(ctx context.Context, c *client.Caller, activityID, ticket string) (client.Path, error) {
	pass := ""
	for {
		path, err := c.NewPathWith(ctx, activityID, ticket, pass)
		switch client.CodeOf(err) {
		case contract.CodeActivityNotStarted:
			// The services' clock decides, so this may wake a little early and request the path again.
			err = pause(ctx, max(time.Until(client.AsProblem(err).StartsAt), 20*time.Millisecond))
		case contract.CodeRoomWaiting: // for longer than the client repeats a call
			err = nil
		case contract.CodeRoomRequired: // no ticket yet, or it has lapsed
			ticket, err = c.JoinRoom(ctx, activityID)
		case contract.CodeChallengeRequired: // no pass yet, or it has expired
			if pass, err = c.PassByWork(ctx, activityID, ticket); client.CodeOf(err) == contract.CodeChallengeWrong ||
				client.CodeOf(err) == contract.CodeRoomRequired {
				pass, err = "", nil // too late; the next path request returns what is missing
			}
		default:
			return path, err
		}
		if err != nil {
			return path, err
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

// Await calls get until done returns true. The pause between the calls grows to a second.
func Await[T any](ctx context.Context, get func(context.Context) (T, error), done func(T) bool) (T, error) {
	wait := 50 * time.Millisecond
	for {
		v, err := get(ctx)
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

// Pay starts a payment and makes the sandbox provider report its success.
func Pay(ctx context.Context, c *client.Caller, orderSN string) error {
	payment, err := c.StartPayment(ctx, orderSN, "sandbox", "pay-"+orderSN)
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
