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
	"time"

	"flashsale.internal/pkg/contract"
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
	cfg     Config
	refunds Refunds
	client  *http.Client
}

var _ core.Provider = (*Provider)(nil)

// New makes the provider with its book.
func New(cfg Config, refunds Refunds) *Provider {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Provider{cfg: cfg, refunds: refunds, client: &http.Client{
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

// Refunds keeps what was given back.
type Refunds interface {
	// RecordRefund notes a refund once. The same again is no error; false tells that the id stands for other figures.
	RecordRefund(ctx context.Context, refundID string, amount int64, currency string, at time.Time) (same bool, err error)
}

// Refund implements core.Provider. The same refund again is done; the same id with other figures is declined.
func (p *Provider) Refund(ctx context.Context, refundID string, amount int64, currency string) error {
	same, err := p.refunds.RecordRefund(ctx, refundID, amount, currency, p.cfg.Now())
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("%w: refund %s was given with other figures", core.ErrRefundDeclined, refundID)
	}
	return nil
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
