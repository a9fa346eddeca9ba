package core

import (
	"context"
	"time"
)

// Refund is a refund as the order service stores it.
type Refund struct {
	ID            string // of the payment
	OrderSN       string
	Provider      string
	Amount        int64 // minor units
	Currency      string
	State         string // refund_pending, refunded or refund_failed
	Reason        string
	Attempts      int64      // since the last retry by an operator
	NextAttemptAt *time.Time // of refund_pending
	LastError     string     // of the provider
	CreatedAt     time.Time
	RefundedAt    *time.Time
	Settled       *RefundSettlement // nil unless an operator settled it
}

// RefundSettlement is how an operator returned the money of a refund that its provider has refused.
type RefundSettlement struct {
	By        string // user id of the operator
	Reference string // of the transfer
	Reason    string
}

// RefundPage selects a part of the list of refunds. Cursor is one that the order service returned; "" for the start.
type RefundPage struct {
	Limit  int
	Cursor string
}

// Refunds are the refunds of the order service. Their refusals are those of the order service. If it does not respond,
// or its provider does not, the refusal is unavailable.
type Refunds interface {
	// WaitingRefunds returns those that wait for an operator, oldest first, and the next cursor, "" after the last page.
	WaitingRefunds(ctx context.Context, p RefundPage) (list []Refund, next string, err error)
	RetryRefund(ctx context.Context, id, by string) (Refund, error)
	SettleRefund(ctx context.Context, id string, how RefundSettlement) (Refund, error)
}

// WaitingRefunds lists the refunds that wait for an operator, of all merchants, oldest first.
func (s *Service) WaitingRefunds(ctx context.Context, p RefundPage) (list []Refund, next string, err error) {
	return s.refunds.WaitingRefunds(ctx, p)
}

// RetryRefund requests another attempt at a refund that its provider has refused.
func (s *Service) RetryRefund(ctx context.Context, by Caller, id string) (Refund, error) {
	if err := s.recordRefund(ctx, by, "refund.retry", id, nil); err != nil {
		return Refund{}, err
	}
	return s.refunds.RetryRefund(ctx, id, by.UserID)
}

// SettleRefund requests that a refund, which its provider has refused, is recorded as made in another way.
func (s *Service) SettleRefund(ctx context.Context, by Caller, id, reference, reason string) (Refund, error) {
	detail := map[string]any{"reference": reference, "reason": reason}
	if err := s.recordRefund(ctx, by, "refund.settle", id, detail); err != nil {
		return Refund{}, err
	}
	return s.refunds.SettleRefund(ctx, id, RefundSettlement{By: by.UserID, Reference: reference, Reason: reason})
}

// recordRefund records the change of a refund in the change log, before the order service makes it: a change that
// cannot be recorded is not made, and a recorded change that failed was an attempt.
func (s *Service) recordRefund(ctx context.Context, by Caller, action, id string, detail any) error {
	return s.store.Record(ctx, Change{
		At: s.clock(), Who: by.UserID, Role: by.role(), Action: action, Object: "refund", ObjectID: id, Detail: detail,
	})
}
