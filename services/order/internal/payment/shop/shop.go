// Package shop is the payment provider of a shop that takes the payments itself, under its own contracts. The buyer pays
// on the checkout page of the shop. Its routes and signatures are described in api/shopapi/openapi.yaml.
package shop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/services/order/api/shopapi"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
)

// Name is the provider's name in the API.
const Name = "shop"

const (
	callTimeout = 10 * time.Second
	maxResponse = 1 << 20 // bytes
)

// Config configures the provider.
type Config struct {
	CheckoutURL string // the page on which buyers pay, without a query
	APIURL      string // the base of the routes that the shop serves
	// Secrets sign what is sent (the first) and verify callbacks (all). There is more than one while the secret is rotated.
	Secrets   []string
	Now       func() time.Time  // required
	Transport http.RoundTripper // nil for http.DefaultTransport
}

// Provider is a shop as a payment provider.
type Provider struct {
	cfg    Config
	client *http.Client
}

var _ core.Provider = (*Provider)(nil)

// New returns a provider.
func New(cfg Config) *Provider {
	cfg.APIURL = strings.TrimSuffix(cfg.APIURL, "/")
	return &Provider{cfg: cfg, client: &http.Client{
		Transport: cfg.Transport, Timeout: callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Name implements core.Provider.
func (*Provider) Name() string { return Name }

// Begin implements core.Provider. It makes no call: the shop learns of a payment from the signed URL of its checkout page.
func (p *Provider) Begin(_ context.Context, pay core.Payment, deadline time.Time) (core.Begun, error) {
	query := url.Values{
		"payment_id": {pay.PaymentID}, "order_sn": {pay.OrderSN}, "amount": {strconv.FormatInt(pay.Amount, 10)},
		"currency": {pay.Currency}, "expires": {strconv.FormatInt(deadline.Unix(), 10)},
	}.Encode()
	signature := payment.Sign(p.cfg.Secrets[0], []byte(query), pay.CreatedAt)
	return core.Begun{PayURL: p.cfg.CheckoutURL + "?" + query + "&signature=" + url.QueryEscape(signature)}, nil
}

// Parse implements core.Provider.
func (p *Provider) Parse(_ context.Context, h http.Header, body []byte) ([]core.PaymentEvent, error) {
	return payment.Parse(Name, p.cfg.Secrets, p.cfg.Now(), h, body)
}

// Cancel implements core.Provider.
func (p *Provider) Cancel(ctx context.Context, pay core.Payment) error {
	return p.call(ctx, http.MethodPost, "/payments/"+pay.PaymentID+"/cancel", nil, nil)
}

// Refund implements core.Provider.
func (p *Provider) Refund(ctx context.Context, pay core.Payment) error {
	var made shopapi.Refund
	err := p.call(ctx, http.MethodPost, "/payments/"+pay.PaymentID+"/refund",
		shopapi.Money{Amount: pay.PaidAmount, Currency: pay.PaidCurrency}, &made)
	if Refused(err, http.StatusConflict, "refund_declined") {
		return fmt.Errorf("%w: %w", core.ErrRefundDeclined, err)
	}
	got := refund(made)
	if err == nil && (got.RefundID != pay.PaymentID || got.Amount != pay.PaidAmount || got.Currency != pay.PaidCurrency) {
		return fmt.Errorf("shop has refunded %d %s of payment %q instead", made.Amount, made.Currency, made.PaymentId)
	}
	return err
}

// FindRefund implements core.Provider.
func (p *Provider) FindRefund(ctx context.Context, pay core.Payment) (core.ProviderRefund, bool, error) {
	var made shopapi.Refund
	err := p.call(ctx, http.MethodGet, "/payments/"+pay.PaymentID+"/refund", nil, &made)
	if Refused(err, http.StatusNotFound, "not_found") {
		return core.ProviderRefund{}, false, nil
	}
	return refund(made), err == nil, err
}

// FindCharge implements core.Provider.
func (p *Provider) FindCharge(ctx context.Context, pay core.Payment) (core.Charge, bool, error) {
	list, next, err := p.charges(ctx, url.Values{"since": {time.Unix(0, 0).UTC().Format(time.RFC3339)}, "payment_id": {pay.PaymentID}})
	for _, c := range list {
		if c.PaymentID == pay.PaymentID {
			return c, true, nil
		}
	}
	if err == nil && next != "" {
		err = errors.New("shop lists other charges than that of the payment")
	}
	return core.Charge{}, false, err
}

// Charges implements core.Provider.
func (p *Provider) Charges(ctx context.Context, since time.Time, cursor string, limit int) ([]core.Charge, string, error) {
	return p.charges(ctx, page(since, cursor, limit))
}

func (p *Provider) charges(ctx context.Context, query url.Values) (list []core.Charge, next string, err error) {
	var got struct {
		Items      []shopapi.Charge `json:"items"`
		NextCursor string           `json:"next_cursor"`
	}
	if err := p.call(ctx, http.MethodGet, "/charges?"+query.Encode(), nil, &got); err != nil {
		return nil, "", err
	}
	for _, c := range got.Items {
		list = append(list, core.Charge{
			PaymentID: c.PaymentId, OrderSN: c.OrderSn, Amount: c.Amount, Currency: strings.ToUpper(c.Currency),
			At: c.CreatedAt.UTC(),
		})
	}
	return list, got.NextCursor, nil
}

// Refunds implements core.Provider.
func (p *Provider) Refunds(
	ctx context.Context, since time.Time, cursor string, limit int,
) (list []core.ProviderRefund, next string, err error) {
	var got struct {
		Items      []shopapi.Refund `json:"items"`
		NextCursor string           `json:"next_cursor"`
	}
	if err := p.call(ctx, http.MethodGet, "/refunds?"+page(since, cursor, limit).Encode(), nil, &got); err != nil {
		return nil, "", err
	}
	for _, r := range got.Items {
		list = append(list, refund(r))
	}
	return list, got.NextCursor, nil
}

func refund(r shopapi.Refund) core.ProviderRefund {
	return core.ProviderRefund{RefundID: r.PaymentId, Amount: r.Amount, Currency: strings.ToUpper(r.Currency), At: r.CreatedAt.UTC()}
}

func page(since time.Time, cursor string, limit int) url.Values {
	query := url.Values{"since": {since.UTC().Format(time.RFC3339)}, "limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return query
}

// refusal is a response of the shop that is no success.
type refusal struct {
	status int
	shopapi.Problem
}

func (r *refusal) Error() string {
	detail := ""
	if r.Detail != nil {
		detail = ": " + *r.Detail
	}
	return fmt.Sprintf("shop responds %d %s%s", r.status, cmp.Or(r.Code, "without a code"), detail)
}

// Refused reports whether err is a response of this status and code. A proxy in between may respond with the status, but
// not with the code.
func Refused(err error, status int, code string) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == status && r.Code == code
}

// call sends a signed request and decodes the response into result unless that is nil.
func (p *Provider) call(ctx context.Context, method, target string, body, result any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, p.cfg.APIURL+target, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(payment.Header, payment.Sign(p.cfg.Secrets[0], payment.RequestText(req, sent), p.cfg.Now()))
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	switch {
	case err != nil:
		return err
	case len(raw) > maxResponse:
		return fmt.Errorf("response of the shop has more than %d bytes", maxResponse)
	case res.StatusCode == http.StatusTooManyRequests,
		res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != "":
		after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &core.ProviderBusy{After: time.Duration(max(0, min(after, 3600))) * time.Second}
	case res.StatusCode >= 300 || res.StatusCode < 200:
		r := &refusal{status: res.StatusCode}
		_ = json.Unmarshal(raw, &r.Problem) // not JSON: then the status alone counts
		return r
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("response of the shop to %s %s: %w", method, target, err)
	}
	return nil
}
