package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

func ended() error { return contract.Refuse(contract.CodeActivityEnded, "the sale is over") }

func paused() error { return contract.Refuse(contract.CodeActivityPaused, "the sale is paused") }

func notStarted(at time.Time) error {
	return contract.Refuse(contract.CodeActivityNotStarted, "the sale has not started").With("starts_at", at.UTC())
}

// soldOut tells until when pieces may come back, while that lies ahead of now.
func soldOut(until, now time.Time) error {
	r := contract.Refuse(contract.CodeSoldOut, "sold out")
	if until.After(now) {
		r.Members = []contract.Member{{Name: "may_return_until", Value: until.UTC()}} // what With does, but for its copies
	}
	return r
}

func limitReached(held []string) error {
	r := contract.Refuse(contract.CodeLimitReached, "the limit for one buyer is reached")
	if len(held) > 0 {
		r = r.With("order_sn", held[len(held)-1]).With("order_sns", held)
	}
	return r
}

func otherPurchase() error {
	return contract.Refuse(contract.CodeIdempotencyConflict, "this path was used with other lines")
}

func noReservation() error {
	return contract.Refuse(contract.CodeNotFound, "no such reservation")
}

// unknownSKU names the line when this process knows what the sale holds.
func (s *Service) unknownSKU(activityID string, lines []contract.Line) error {
	if v := s.Watch.fresh(activityID); v != nil {
		for i, l := range lines {
			if _, ok := v.Left[l.SKUID]; !ok {
				return contract.InvalidField(fmt.Sprintf("lines[%d].sku_id", i), "is not part of this activity")
			}
		}
	}
	return contract.InvalidField("lines", "name a SKU that is not part of this activity")
}

// refusal turns what the ports report into what a buyer is told.
func (s *Service) refusal(ctx context.Context, activityID string, err error) error {
	var r *contract.Refusal
	switch {
	case errors.As(err, &r):
		return err
	case errors.Is(err, ErrNoGate), errors.Is(err, ErrNoSale):
		return s.missing(ctx, activityID, err)
	case errors.Is(err, errNotReady):
		return notReady(nil)
	case errors.Is(err, ErrOverloaded):
		return contract.Refuse(contract.CodeOverloaded, "too many callers at once; nothing was taken").After(time.Second)
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled):
		return unknownOutcome(err)
	case errors.Is(err, ErrAway), errors.Is(err, context.DeadlineExceeded):
		return unknownOutcome(nil)
	}
	return err
}

// unknownOutcome is logged with its cause. The many who find Redis away or their time over have none to tell.
func unknownOutcome(err error) error {
	return contract.Refuse(contract.CodeGateUnavailable,
		"no answer in time, the outcome is unknown: repeat the same call or ask for the reservation").After(time.Second).Because(err)
}

// missing tells an activity that does not exist from one that this Redis does not hold (yet, or any more).
func (s *Service) missing(ctx context.Context, activityID string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBound)
	defer cancel()
	ready, err := s.Watch.cat.Ready(ctx)
	if err != nil {
		return s.refusal(ctx, activityID, err)
	}
	if ready && !errors.Is(cause, ErrNoSale) {
		_, cause = s.Watch.cat.Sale(ctx, activityID)
	}
	if ready && errors.Is(cause, ErrNoSale) {
		return contract.Refuse(contract.CodeNotFound, "no such activity")
	}
	return notReady(cause)
}

func notReady(cause error) error {
	return contract.Refuse(contract.CodeGateUnavailable, "the sale is not ready here yet").After(time.Second).Because(cause)
}
