// Package sandbox is a payment provider for development and demonstrations. It takes no money: whoever owns a payment
// says how it ends. Its callbacks are signed and come over HTTP like any provider's, and its refunds are kept in its
// own table, so that a refund asked for twice is given once, also after a restart.
package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
)

// Name is the provider's name in the interface.
const Name = "sandbox"

const callTimeout = 10 * time.Second

// Config of the provider.
type Config struct {
	// Secrets sign callbacks (the first) and verify them (all; more than one while they are being changed).
	Secrets []string
	// CallbackURL is where callbacks are sent: .../v1/payments/callbacks/sandbox.
	CallbackURL string
	Now         func() time.Time
	Transport   http.RoundTripper // nil for http.DefaultTransport
}

// Provider is the sandbox.
type Provider struct {
	cfg    Config
	db     *gorm.DB
	client *http.Client
}

var _ core.Provider = (*Provider)(nil)

// New makes the provider with its book in db.
func New(cfg Config, db *gorm.DB) *Provider {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Provider{cfg: cfg, db: db, client: &http.Client{
		Transport: cfg.Transport, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name implements core.Provider.
func (*Provider) Name() string { return Name }

// PayURL implements core.Provider: where the buyer plays the provider.
func (*Provider) PayURL(p core.Payment) string { return "/v1/payments/" + p.PaymentID + "/sandbox" }

// Verify implements core.Provider.
func (p *Provider) Verify(signature string, body []byte, now time.Time) error {
	return payment.Verify(p.cfg.Secrets, signature, body, now)
}

type refundRow struct {
	RefundID  int64 `gorm:"primaryKey;autoIncrement:false"`
	Amount    int64
	Currency  string
	CreatedAt time.Time
}

func (refundRow) TableName() string { return "sandbox_refunds" }

// Refund implements core.Provider. The same refund again is done; the same id with other figures is declined.
func (p *Provider) Refund(ctx context.Context, refundID string, amount int64, currency string) error {
	id, err := strconv.ParseInt(refundID, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: refund id: %w", core.ErrRefundDeclined, err)
	}
	return sqldb.InTx(ctx, p.db, func(tx *gorm.DB) error {
		var known []refundRow
		if err := tx.Where("refund_id = ?", id).Limit(1).Find(&known).Error; err != nil {
			return err
		}
		if len(known) == 1 {
			if known[0].Amount != amount || known[0].Currency != currency {
				return fmt.Errorf("%w: refund %s was given with other figures", core.ErrRefundDeclined, refundID)
			}
			return nil
		}
		return tx.Create(&refundRow{RefundID: id, Amount: amount, Currency: currency, CreatedAt: p.cfg.Now().UTC()}).Error
	}, sqldb.RetryDuplicates(), sqldb.RetryUnknownCommit())
}

type event struct {
	EventID   string       `json:"event_id"`
	PaymentID string       `json:"payment_id"`
	Outcome   core.Outcome `json:"outcome"`
	Amount    int64        `json:"amount"`
	Currency  string       `json:"currency"`
}

// Play sends the callback that tells how a payment ended, and is done once it was answered 204. The event_id follows
// from payment, outcome and amount, so that playing the same again is the same event.
func (p *Provider) Play(ctx context.Context, pay core.Payment, outcome core.Outcome, amount int64) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d|%s", pay.PaymentID, outcome, amount, pay.Currency))
	body, err := json.Marshal(event{
		EventID: "sbx_" + hex.EncodeToString(sum[:16]), PaymentID: pay.PaymentID, Outcome: outcome, Amount: amount, Currency: pay.Currency,
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.cfg.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(payment.Header, payment.Sign(p.cfg.Secrets[0], body, p.cfg.Now()))
	res, err := p.client.Do(req)
	if err != nil {
		return unanswered(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is used again
	if res.StatusCode != http.StatusNoContent {
		return unanswered(fmt.Errorf("callback answered %d", res.StatusCode))
	}
	return nil
}

func unanswered(cause error) error {
	return contract.Refuse(contract.CodeUnavailable, "The callback was not taken in. Try again.").Because(cause)
}
