package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// RefuseNotFound returns the refusal of a path that names nothing.
func RefuseNotFound() error { return contract.Refuse(contract.CodeNotFound, "no such resource") }

// RefuseEnded returns the refusal of a sale that has ended.
func RefuseEnded() error { return contract.Refuse(contract.CodeActivityEnded, "the sale has ended") }

func paused() error { return contract.Refuse(contract.CodeActivityPaused, "the sale is paused") }

func notStarted(at time.Time) error {
	return contract.Refuse(contract.CodeActivityNotStarted, "the sale has not started").With("starts_at", at.UTC())
}

// soldOut names the time until which units may be released, if it is after now.
func soldOut(until, now time.Time) error {
	r := contract.Refuse(contract.CodeSoldOut, "sold out")
	if until.After(now) {
		r.Members = []contract.Member{{Name: "may_return_until", Value: until.UTC()}} // like With, without its copies
	}
	return r
}

// limitReached names the user's purchases and, if the allowance is over for a while, the time until then.
func limitReached(orderSNs []string, barredUntil time.Time) error {
	r := contract.Refuse(contract.CodeLimitReached, "the limit for one buyer is reached")
	if !barredUntil.IsZero() {
		r = contract.Refuse(contract.CodeLimitReached, "too many of your orders in this sale were cancelled or expired").
			With("barred_until", barredUntil.UTC())
	}
	if len(orderSNs) > 0 {
		r = r.With("order_sn", orderSNs[len(orderSNs)-1]).With("order_sns", orderSNs)
	}
	return r
}

func pathVoid() error {
	return contract.Refuse(contract.CodePathExpired,
		"this path was issued before your latest purchase in this sale; request a new one")
}

func otherLines() error {
	return contract.Refuse(contract.CodeIdempotencyConflict, "this path was used with other lines")
}

func noReservation() error {
	return contract.Refuse(contract.CodeNotFound, "no such reservation")
}

// unknownSKU names the line if the sale is cached.
func (s *Service) unknownSKU(activityID string, lines []contract.Line) error {
	if v := s.Sales.fresh(activityID); v != nil {
		for i, l := range lines {
			if _, ok := v.Left[l.SKUID]; !ok {
				return contract.InvalidField(fmt.Sprintf("lines[%d].sku_id", i), "is not part of this activity")
			}
		}
	}
	return contract.InvalidField("lines", "name a SKU that is not part of this activity")
}

// Refusal converts an error of a port to a refusal for the buyer. It returns refusals and unknown errors unchanged.
func (c *SaleCache) Refusal(ctx context.Context, activityID string, err error) error {
	var r *contract.Refusal
	switch {
	case errors.As(err, &r):
		return err
	case errors.Is(err, ErrNoGate), errors.Is(err, ErrNoSale):
		return c.absent(ctx, activityID, err)
	case errors.Is(err, errNotReady):
		return notReady(nil)
	case errors.Is(err, ErrOverloaded):
		return contract.Refuse(contract.CodeOverloaded,
			"too many requests at once; no units were taken").After(time.Second)
	case errors.Is(err, ErrLater):
		return contract.Refuse(contract.CodeOverloaded,
			"the sale is slowed down; repeat the same request: a purchase is never made twice").After(time.Second)
	case errors.Is(err, ErrDenied):
		return unknownOutcome(nil)
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled):
		return unknownOutcome(err)
	case errors.Is(err, ErrBreakerOpen), errors.Is(err, ErrUnconfirmed), errors.Is(err, context.DeadlineExceeded):
		return unknownOutcome(nil)
	}
	return err
}

// unknownOutcome returns the refusal of a read or purchase that got no usable response; the purchase may have been
// accepted. The refusal is logged with its cause err. Callers pass nil for an open breaker, denied access, a time-out and a
// purchase that no replica has: during an outage there are too many of these to log each.
func unknownOutcome(err error) error {
	return contract.Refuse(contract.CodeGateUnavailable,
		"no usable response in time; repeat the same request: a purchase may have been accepted and is never made twice").
		After(time.Second).Because(err)
}

// absent returns the refusal of an activity whose gate or sale Redis lacks: not_found if the activity does not exist,
// gate_unavailable if inventory has yet to write it to this Redis, for the first time or again.
func (c *SaleCache) absent(ctx context.Context, activityID string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	// Read before the sale, which may be written right afterwards, and after it: a Redis that lost everything before the
	// sale was read is not ready then.
	ready, err := c.cat.Ready(ctx)
	if err == nil && ready {
		_, cause = c.cat.Sale(ctx, activityID)
		ready, err = c.cat.Ready(ctx)
	}
	switch {
	case err != nil:
		return c.Refusal(ctx, activityID, err)
	case ready && errors.Is(cause, ErrNoSale):
		return contract.Refuse(contract.CodeNotFound, "no such activity")
	}
	return notReady(cause)
}

func notReady(cause error) error {
	return contract.Refuse(contract.CodeGateUnavailable, "the sale is not ready yet").After(time.Second).Because(cause)
}
