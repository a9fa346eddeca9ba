// Package sandbox is a payment provider for development and demonstrations. It takes no money: the buyer chooses the
// outcome of a payment. Like those of a real provider, its callbacks are signed and sent over HTTP. It has a
// book of its charges and refunds, so that each takes effect once, also after a restart, and can be listed.
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
	cfg    Config
	book   Book
	client *http.Client
}

var _ core.Provider = (*Provider)(nil)

// New returns a provider that records its charges and refunds in book.
func New(cfg Config, book Book) *Provider {
	return &Provider{cfg: cfg, book: book, client: &http.Client{
		Transport: cfg.Transport, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name implements core.Provider.
func (*Provider) Name() string { return Name }

// Begin implements core.Provider. The buyer chooses the outcome on a route of the service.
func (*Provider) Begin(_ context.Context, p core.Payment, _ time.Time) (core.Begun, error) {
	return core.Begun{PayURL: "/v1/payments/" + p.PaymentID + "/sandbox"}, nil
}

// Cancel implements core.Provider. The sandbox takes late payments on purpose, so that their refunds can be seen.
func (*Provider) Cancel(context.Context, core.Payment) error { return nil }

// Parse implements core.Provider.
func (p *Provider) Parse(_ context.Context, h http.Header, body []byte) ([]core.PaymentEvent, error) {
	return payment.Parse(Name, p.cfg.Secrets, p.cfg.Now(), h, body)
}

// Book stores the charges and the refunds that the sandbox has made, with the time of each by its own clock.
type Book interface {
	// RecordCharge stores a charge once; repeating it is no error and changes nothing.
	RecordCharge(ctx context.Context, c core.Charge) error
	FindCharge(ctx context.Context, paymentID string) (c core.Charge, found bool, err error)
	// Charges returns a page of the charges since a time, oldest first.
	Charges(ctx context.Context, since time.Time, cursor string, limit int) (page []core.Charge, next string, err error)

	// RecordRefund stores a refund once; repeating it is no error. It returns false when the id is stored with another
	// amount or currency.
	RecordRefund(ctx context.Context, refundID string, amount int64, currency string) (same bool, err error)
	FindRefund(ctx context.Context, refundID string) (made core.ProviderRefund, found bool, err error)
	// Refunds returns a page of the refunds since a time, oldest first.
	Refunds(
		ctx context.Context, since time.Time, cursor string, limit int,
	) (page []core.ProviderRefund, next string, err error)
}

// FindCharge implements core.Provider.
func (p *Provider) FindCharge(ctx context.Context, pay core.Payment) (core.Charge, bool, error) {
	return p.book.FindCharge(ctx, pay.PaymentID)
}

// Charges implements core.Provider.
func (p *Provider) Charges(
	ctx context.Context, since time.Time, cursor string, limit int,
) ([]core.Charge, string, error) {
	return p.book.Charges(ctx, since, cursor, limit)
}

// Refunds implements core.Provider.
func (p *Provider) Refunds(
	ctx context.Context, since time.Time, cursor string, limit int,
) ([]core.ProviderRefund, string, error) {
	return p.book.Refunds(ctx, since, cursor, limit)
}

// FindRefund implements core.Provider.
func (p *Provider) FindRefund(ctx context.Context, pay core.Payment) (core.ProviderRefund, bool, error) {
	return p.book.FindRefund(ctx, pay.PaymentID)
}

// Refund implements core.Provider. Repeating a refund succeeds; the same id with another amount or currency is
// declined.
func (p *Provider) Refund(ctx context.Context, pay core.Payment) error {
	same, err := p.book.RecordRefund(ctx, pay.PaymentID, pay.PaidAmount, pay.PaidCurrency)
	if err != nil {
		return err
	}
	if !same {
		return fmt.Errorf("%w: refund %s exists with another amount or currency", core.ErrRefundDeclined, pay.PaymentID)
	}
	return nil
}

// SendCallback records the charge of a payment that succeeds, and sends the callback that reports the outcome. It
// returns nil once the response was 204. A payment is charged once, also if its callback is sent again. The event_id is derived from payment, outcome, amount and currency, so that a repeated call sends the same event.
func (p *Provider) SendCallback(ctx context.Context, pay core.Payment, outcome core.Outcome, amount int64) error {
	if outcome == core.OutcomeSucceeded {
		err := p.book.RecordCharge(ctx, core.Charge{
			PaymentID: pay.PaymentID, OrderSN: pay.OrderSN, UserID: pay.UserID, Amount: amount, Currency: pay.Currency,
		})
		if err != nil {
			return err
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d|%s", pay.PaymentID, outcome, amount, pay.Currency))
	body, err := json.Marshal(payment.Event{
		EventID: "sbx_" + hex.EncodeToString(sum[:16]), PaymentID: pay.PaymentID, Outcome: string(outcome), Amount: &amount,
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
