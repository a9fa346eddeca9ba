package store

import (
	"context"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

// decisionRow is one decision of an operator about a refund.
type decisionRow struct {
	ID        int64 `gorm:"primaryKey"`
	PaymentID int64
	Action    string
	DecidedBy string
	DecidedAt time.Time
	Reference string
	Reason    string
}

func (decisionRow) TableName() string { return "refund_decisions" }

// Refund implements core.Store.
func (s *Store) Refund(ctx context.Context, paymentID string) (core.Refund, bool, error) {
	r, found, err := findRefund(s.db.WithContext(ctx), paymentID, false)
	return r, found, refuseTransient(err)
}

// RefundDecisions implements core.Store.
func (s *Store) RefundDecisions(
	ctx context.Context, paymentIDs []string, limit int,
) ([]core.RefundDecision, error) {
	pids, err := ids(paymentIDs)
	if err != nil {
		return nil, err
	}
	var rows []decisionRow
	err = s.db.WithContext(ctx).Where("payment_id IN ?", pids).Order("id DESC").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, refuseTransient(err)
	}
	list := make([]core.RefundDecision, len(rows))
	for i, r := range rows {
		list[len(rows)-1-i] = core.RefundDecision{
			PaymentID: text(r.PaymentID), Action: core.RefundAction(r.Action), At: r.DecidedAt.UTC(),
			Settlement: core.Settlement{By: r.DecidedBy, Reference: r.Reference, Reason: r.Reason},
		}
	}
	return list, nil
}

// WaitingRefunds implements core.Store.
func (s *Store) WaitingRefunds(
	ctx context.Context, attempts int, after core.Position, limit int,
) ([]core.Refund, error) {
	find := s.db.WithContext(ctx).Where("(state = ? OR (state = ? AND attempts >= ?))", string(core.RefundFailed),
		string(core.RefundPending), attempts)
	if !after.CreatedAt.IsZero() {
		pid, err := id(after.OrderSN)
		if err != nil {
			return nil, err
		}
		find = find.Where("(created_at > ? OR (created_at = ? AND payment_id > ?))", after.CreatedAt, after.CreatedAt, pid)
	}
	var rows []refundRow
	if err := find.Order("created_at, payment_id").Limit(limit).Find(&rows).Error; err != nil {
		return nil, refuseTransient(err)
	}
	list := make([]core.Refund, len(rows))
	for i, r := range rows {
		list[i] = r.refund()
	}
	return list, nil
}

// RefusedRefunds returns the number of refunds that their provider has refused.
func (s *Store) RefusedRefunds(ctx context.Context) (n int64, err error) {
	err = s.db.WithContext(ctx).Model(&refundRow{}).Where("state = ?", string(core.RefundFailed)).Count(&n).Error
	return n, refuseTransient(err)
}

func (t *tx) LockRefund(paymentID string) (core.Refund, bool, error) {
	return findRefund(t.db, paymentID, true)
}

func (t *tx) UpdateRefused(r core.Refund) (int, error) {
	pid, err := id(r.PaymentID)
	if err != nil {
		return 0, err
	}
	res := t.db.Model(&refundRow{}).Where("payment_id = ? AND state = ?", pid, string(core.RefundFailed)).
		Updates(map[string]any{
			"state": string(r.State), "attempts": r.Attempts, "next_attempt_at": r.NextAttemptAt,
			"finished_at": nullableTime(r.FinishedAt),
		})
	return int(res.RowsAffected), res.Error
}

func (t *tx) InsertRefundDecision(d core.RefundDecision, at time.Time) error {
	pid, err := id(d.PaymentID)
	if err != nil {
		return err
	}
	return t.db.Create(&decisionRow{
		PaymentID: pid, Action: string(d.Action), DecidedBy: d.By, DecidedAt: at, Reference: d.Reference, Reason: d.Reason,
	}).Error
}

// findRefund reads a refund and how it was settled. If lock is true it locks the refund.
func findRefund(db *gorm.DB, paymentID string, lock bool) (core.Refund, bool, error) {
	pid, err := id(paymentID)
	if err != nil {
		return core.Refund{}, false, err
	}
	find := db
	if lock {
		find = sqldb.ForUpdate(db)
	}
	var rows []refundRow
	if err := find.Where("payment_id = ?", pid).Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return core.Refund{}, false, err
	}
	r := rows[0].refund()
	if r.State != core.RefundDone {
		return r, true, nil
	}
	var settled []decisionRow
	err = db.Where("payment_id = ? AND action = ?", pid, string(core.RefundSettle)).Limit(1).Find(&settled).Error
	if err == nil && len(settled) == 1 {
		r.Settled = core.Settlement{
			By: settled[0].DecidedBy, Reference: settled[0].Reference, Reason: settled[0].Reason,
		}
	}
	return r, err == nil, err
}
