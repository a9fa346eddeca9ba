package store

import (
	"context"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/webhooks"
)

type webhookRow struct {
	ID         int64 `gorm:"primaryKey"`
	MerchantID string
	URL        string
	Types      string // with commas
	State      string
	Secret     string
	OldSecret  string
	OldUntil   *time.Time
	ScannedTo  time.Time
	Replay     string
	CreatedAt  time.Time `gorm:"autoCreateTime:false"`
	LeasedTo   time.Time
	Failures   int
}

func (webhookRow) TableName() string { return "webhooks" }

var webhookColumns = []string{
	"id", "merchant_id", "url", "types", "state", "secret", "old_secret", "old_until", "scanned_to", "replay", "created_at",
	"leased_to", "failures",
}

func toWebhook(r webhookRow) webhooks.Endpoint {
	return webhooks.Endpoint{
		ID: text(r.ID), MerchantID: r.MerchantID, URL: r.URL, Types: strings.Split(r.Types, ","),
		State: webhooks.State(r.State), Secret: r.Secret, OldSecret: r.OldSecret, OldUntil: utc(r.OldUntil),
		ScannedTo: r.ScannedTo.UTC(), Replay: r.Replay, CreatedAt: r.CreatedAt.UTC(),
		LeasedTo: r.LeasedTo.UTC(), Failures: r.Failures,
	}
}

func webhookRowOf(e webhooks.Endpoint) webhookRow {
	return webhookRow{
		ID: number(e.ID), MerchantID: e.MerchantID, URL: e.URL, Types: strings.Join(e.Types, ","), State: string(e.State),
		Secret: e.Secret, OldSecret: e.OldSecret, OldUntil: e.OldUntil, ScannedTo: e.ScannedTo, Replay: e.Replay,
		CreatedAt: e.CreatedAt, LeasedTo: e.LeasedTo, Failures: e.Failures,
	}
}

// CreateWebhook implements webhooks.Endpoints.
func (s *Store) CreateWebhook(
	ctx context.Context, e webhooks.Endpoint, c core.Change, check func(used int64) error,
) (webhooks.Endpoint, error) {
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		if err := lockMerchant(tx, e.MerchantID); err != nil {
			return err
		}
		var used int64
		err := within(tx.Model(&webhookRow{}), core.OfMerchant(e.MerchantID)).Count(&used).Error
		if err == nil {
			err = check(used)
		}
		if err != nil {
			return err
		}
		row := webhookRowOf(e)
		row.ID = s.drawID()
		if err := create(tx, &row); err != nil {
			return err
		}
		e = toWebhook(row)
		c.ObjectID, c.MerchantID = e.ID, e.MerchantID
		return record(tx, c)
	})
	return e, err
}

// Webhook implements webhooks.Endpoints.
func (s *Store) Webhook(ctx context.Context, in core.Scope, id string) (*webhooks.Endpoint, error) {
	return webhookOf(s.read(ctx), in, id)
}

func webhookOf(q *gorm.DB, in core.Scope, id string) (*webhooks.Endpoint, error) {
	list, err := webhooksOf(within(q, in).Where("id = ?", number(id)).Limit(1))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func webhooksOf(q *gorm.DB) ([]webhooks.Endpoint, error) {
	var rows []webhookRow
	err := q.Select(webhookColumns).Find(&rows).Error
	list := make([]webhooks.Endpoint, len(rows))
	for i, r := range rows {
		list[i] = toWebhook(r)
	}
	return list, err
}

// Webhooks implements webhooks.Endpoints.
func (s *Store) Webhooks(ctx context.Context, in core.Scope, p core.Page) ([]webhooks.Endpoint, error) {
	q := within(s.read(ctx), in)
	if p.Cursor != "" {
		q = q.Where("id < ?", number(p.Cursor))
	}
	return webhooksOf(q.Order("id DESC").Limit(p.Limit))
}

// ActiveWebhooks implements webhooks.Endpoints.
func (s *Store) ActiveWebhooks(ctx context.Context) ([]webhooks.Endpoint, error) {
	return webhooksOf(s.read(ctx).Where("state = ?", string(webhooks.Active)).Order("id"))
}

// LeaseEndpoint implements webhooks.Endpoints. The time identifies the lease.
func (s *Store) LeaseEndpoint(
	ctx context.Context, id string, lease time.Duration,
) (until time.Time, ok bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return until, false, err
	}
	until = now.Add(lease)
	n, err := sqldb.Exec(s.read(ctx), "UPDATE webhooks SET leased_to = ? WHERE id = ? AND (leased_to <= ? OR leased_to >= ?)",
		until, number(id), now, now.Add(webhooks.LongestLease))
	return until, n == 1, err
}

// ReturnEndpoint implements webhooks.Endpoints.
func (s *Store) ReturnEndpoint(
	ctx context.Context, id string, until time.Time, failures int, pause time.Duration,
) error {
	now, err := s.Now(ctx)
	if err == nil {
		_, err = sqldb.Exec(s.read(ctx), "UPDATE webhooks SET leased_to = ?, failures = ? WHERE id = ? AND leased_to = ?",
			now.Add(pause), failures, number(id), until)
	}
	return err
}

// StaleSecrets implements webhooks.Endpoints.
func (s *Store) StaleSecrets(
	ctx context.Context, keyID, after string, ended time.Time,
) ([]webhooks.Endpoint, error) {
	return webhooksOf(s.read(ctx).Where("id > ?", number(after)).
		Where("secret NOT LIKE ? OR old_secret <> '' AND (old_secret NOT LIKE ? OR old_until < ?)", keyID+".%", keyID+".%", ended.UTC()).
		Order("id").Limit(100))
}

// ChangeWebhook implements webhooks.Endpoints.
func (s *Store) ChangeWebhook(
	ctx context.Context, in core.Scope, id string, c *core.Change, fn func(e *webhooks.Endpoint) error,
) (*webhooks.Endpoint, error) {
	var out *webhooks.Endpoint
	err := sqldb.InTx(ctx, s.db, func(tx *gorm.DB) (err error) {
		if out, err = webhookOf(sqldb.ForUpdate(tx), in, id); err != nil {
			return err
		}
		if out == nil {
			return notFound()
		}
		if err := fn(out); err != nil {
			return err
		}
		row := webhookRowOf(*out)
		err = tx.Model(&webhookRow{}).Where("id = ?", row.ID).Select(webhookColumns[2:]).Updates(&row).Error
		if err != nil || c == nil {
			return err
		}
		c.ObjectID, c.MerchantID = out.ID, out.MerchantID
		return record(tx, *c)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// DeleteWebhook implements webhooks.Endpoints. Deliveries are deleted by their age.
func (s *Store) DeleteWebhook(ctx context.Context, in core.Scope, id string, c core.Change) error {
	return sqldb.InTx(ctx, s.db, func(tx *gorm.DB) error {
		e, err := webhookOf(sqldb.ForUpdate(tx), in, id)
		if err != nil {
			return err
		}
		if e == nil {
			return notFound()
		}
		if err := tx.Where("id = ?", number(id)).Delete(&webhookRow{}).Error; err != nil {
			return err
		}
		c.ObjectID, c.MerchantID, c.Detail = e.ID, e.MerchantID, map[string]any{"url": e.URL}
		return record(tx, c)
	})
}
