// Package sandbox is a payment provider for development and demonstrations. It takes no money: the buyer chooses the
// outcome of a payment. Like those of a real provider, its callbacks are signed and sent over HTTP. Its refunds are
// stored in a table, so that a repeated refund takes effect once, also after a restart.
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

// Name is the provider's name in the API.
const Name = "sandbox"

const callTimeout = 10 * time.Second

// Config configures the provider.
type Config struct {
	// Secrets sign callbacks (the first) and verify them (all). There is more than one while the secret is rotated.
	Secrets []string
	// CallbackURL is the target of callbacks: .../v1/payments/callbacks/sandbox.
	CallbackURL string
	Now         func() time.Time  // required
	Transport   http.RoundTripper // nil for http.DefaultTransport
}

// Provider is the sandbox payment provider.
type Provider struct {
	cfg     Config
	refunds Refunds
	client  *http.Client
}

var _ core.Provider = (*Provider)(nil)

// New returns a provider that records its refunds in refunds.
func New(cfg Config, refunds Refunds) *Provider {
	return &Provider{cfg: cfg, refunds: refunds, client: &http.Client{
		Transport: cfg.Transport, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name implements core.Provider.
func (*Provider) Name() string { return Name }

// PayURL implements core.Provider. It is the route on which the buyer chooses the outcome.
func (*Provider) PayURL(p core.Payment) string { return "/v1/payments/" + p.PaymentID + "/sandbox" }

// Verify implements core.Provider.
func (p *Provider) Verify(signature string, body []byte, now time.Time) error {
	return payment.Verify(p.cfg.Secrets, signature, body, now)
}

// Refunds stores the refunds that the sandbox has made.
type Refunds interface {
	// RecordRefund stores a refund once; repeating it is no error. It returns false when the id is stored with another
	// amount or currency.
	RecordRefund(
		ctx context.Context, refundID string, amount int64, currency string, at time.Time,
	) (same bool, err error)
	// FindRefund returns a refund that RecordRefund has stored.
	FindRefund(ctx context.Context, refundID string) (made core.ProviderRefund, found bool, err error)
}

// FindRefund implements core.Provider.
func (p *Provider) FindRefund(ctx context.Context, refundID string) (core.ProviderRefund, bool, error) {
	return p.refunds.FindRefund(ctx, refundID)
}

// Refund implements core.Provider. Repeating a refund succeeds; the same id with another amount or currency is
// declined.
func (p *Provider) Refund(ctx context.Context, refundID string, amount int64, currency string) error {
	same, err := p.refunds.RecordRefund(ctx, refundID, amount, currency, p.cfg.Now())
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("%w: refund %s exists with another amount or currency", core.ErrRefundDeclined, refundID)
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

// SendCallback sends the callback that reports the outcome of a payment. It returns nil once the response was 204. The
// event_id is derived from payment, outcome, amount and currency, so that a repeated call sends the same event.
func (p *Provider) SendCallback(ctx context.Context, pay core.Payment, outcome core.Outcome, amount int64) error {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d|%s", pay.PaymentID, outcome, amount, pay.Currency))
	body, err := json.Marshal(event{
		EventID: "sbx_" + hex.EncodeToString(sum[:16]), PaymentID: pay.PaymentID, Outcome: outcome, Amount: amount,
		Currency: pay.Currency,
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
		return unavailable(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is reused
	if res.StatusCode != http.StatusNoContent {
		return unavailable(fmt.Errorf("send callback: status %d", res.StatusCode))
	}
	return nil
}

func unavailable(cause error) error {
	return contract.Refuse(contract.CodeUnavailable, "The callback failed. Try again.").Because(cause)
}
