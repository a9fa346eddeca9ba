// Package conform checks the server of a shop that takes payments itself.
package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
	"flashsale.internal/services/order/internal/payment/conformance"
	"flashsale.internal/services/order/internal/payment/shop"
)

// Options are the addresses of a shop and the secret that it shares with the order service.
type Options struct {
	CheckoutURL, APIURL string
	Secrets             []string
	// CallbackAddr is the listener to which the shop must send its callbacks during the check.
	CallbackAddr string
}

const (
	caseTimeout     = time.Minute
	callbackTimeout = 10 * time.Second
	maxCallback     = 64 << 10 // bytes
)

// Shop runs all cases against a shop, in a test installation that takes payments without money. It writes a line for
// each case to out, and returns an error if one failed.
func Shop(ctx context.Context, o Options, out io.Writer) error {
	if strings.ContainsAny(o.CheckoutURL, "?#") {
		return errors.New("the checkout URL must have no query and no fragment")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.CallbackAddr)
	if err != nil {
		return err
	}
	received := make(chan conformance.Callback, 64)
	srv := &http.Server{ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallback))
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			select {
			case received <- conformance.Callback{Header: r.Header, Body: body}:
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
			}
		})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(l) // until Close
	}()
	defer func() {
		_ = srv.Close()
		<-served
	}()

	of := func(secrets []string, ago time.Duration) *shop.Provider {
		return shop.New(shop.Config{
			CheckoutURL: o.CheckoutURL, APIURL: o.APIURL, Secrets: secrets,
			Now: func() time.Time { return time.Now().Add(-ago) },
		})
	}
	subject := conformance.Subject{Provider: of(o.Secrets, 0), New: newPayment, Pay: buyer(received)}
	cases := append(conformance.Cases(), shopCases(map[string]*shop.Provider{
		"another secret": of([]string{"another-secret-than-that-of-the-shop"}, 0),
		"an old time":    of(o.Secrets, 2*payment.Tolerance),
	})...)
	failed := 0
	for _, c := range cases {
		ctx, cancel := context.WithTimeout(ctx, caseTimeout)
		err := c.Run(ctx, subject)
		cancel()
		if err != nil {
			failed++
			fmt.Fprintf(out, "FAILED  %s: %v\n", c.Name, err)
			continue
		}
		fmt.Fprintf(out, "ok      %s\n", c.Name)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, len(cases))
	}
	return nil
}

// shopCases are the promises of a shop beside those of each provider. strangers sign requests that it must refuse.
func shopCases(strangers map[string]*shop.Provider) []conformance.Case {
	soon := func() time.Time { return time.Now().Add(10 * time.Minute) }
	same := func(page string) string { return page }
	return []conformance.Case{
		{Name: "a request without a valid signature is refused", Run: func(ctx context.Context, s conformance.Subject) error {
			return refusedRequests(ctx, s, strangers)
		}},
		{Name: "another amount than that of the charge is not refunded", Run: declinedRefunds},
		{Name: "a checkout page with another amount is refused", Run: func(ctx context.Context, s conformance.Subject) error {
			return refusedPage(ctx, s, s.New(1999, "EUR"), soon(), func(page string) string {
				return strings.Replace(page, "amount=1999", "amount=1", 1)
			})
		}},
		{Name: "a checkout page that has expired is refused", Run: func(ctx context.Context, s conformance.Subject) error {
			return refusedPage(ctx, s, s.New(1999, "EUR"), time.Now().Add(-2*payment.Tolerance), same)
		}},
		{Name: "the checkout page of a cancelled payment is refused", Run: func(ctx context.Context, s conformance.Subject) error {
			p := s.New(1999, "EUR") // the shop may not have seen its page yet
			if err := s.Cancel(ctx, p); err != nil {
				return err
			}
			return refusedPage(ctx, s, p, soon(), same)
		}},
	}
}

// refusedRequests returns an error if a shop takes a request of a stranger.
func refusedRequests(ctx context.Context, s conformance.Subject, strangers map[string]*shop.Provider) error {
	p, _, err := conformance.Paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	for with, stranger := range strangers {
		_, _, err := stranger.Charges(ctx, time.Now(), "", 1)
		for call, err := range map[string]error{
			"GET /charges": err, "POST .../cancel": stranger.Cancel(ctx, p), "POST .../refund": stranger.Refund(ctx, p),
		} {
			if !shop.Refused(err, http.StatusUnauthorized, "unauthenticated") {
				return errors.Join(fmt.Errorf("%s that is signed with %s is not 401 unauthenticated", call, with), err)
			}
		}
	}
	return conformance.Missing(ctx, s.FindRefund, p, "a refund of it")
}

// declinedRefunds returns an error if a shop refunds what it has not taken.
func declinedRefunds(ctx context.Context, s conformance.Subject) error {
	p, _, err := conformance.Paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	other, never := p, s.New(1999, "EUR")
	other.PaidAmount, never.PaidAmount, never.PaidCurrency = 1998, 1999, "EUR"
	for what, p := range map[string]core.Payment{"another amount": other, "a payment that was not taken": never} {
		if err := s.Refund(ctx, p); !errors.Is(err, core.ErrRefundDeclined) {
			return errors.Join(fmt.Errorf("the refund of %s is not 409 refund_declined", what), err)
		}
	}
	return conformance.Missing(ctx, s.FindRefund, p, "a refund of it")
}

// refusedPage returns an error if a payment can be paid on its page after change, or if it is charged.
func refusedPage(
	ctx context.Context, s conformance.Subject, p core.Payment, deadline time.Time, change func(string) string,
) error {
	begun, err := s.Begin(ctx, p, deadline)
	if err != nil {
		return err
	}
	begun.PayURL = change(begun.PayURL)
	var refused notPaid
	if _, err := s.Pay(ctx, p, begun); !errors.As(err, &refused) {
		return errors.Join(errors.New("the page is not refused"), err)
	}
	return conformance.Missing(ctx, s.FindCharge, p, "the charge of a page that was refused")
}

// newPayment returns a payment with ids that no earlier run has used.
func newPayment(amount int64, currency string) core.Payment {
	now := time.Now()
	id := strconv.FormatInt(now.UnixNano(), 10)
	return core.Payment{
		PaymentID: id, OrderSN: id, UserID: "conform", Amount: amount, Currency: currency, CreatedAt: now,
	}
}

// notPaid is the response of a checkout page that takes no payment.
type notPaid struct{ status string }

func (n notPaid) Error() string { return "the checkout page responds " + n.status }

// buyer pays by a POST of the checkout page, and waits for the callback.
func buyer(received <-chan conformance.Callback) func(context.Context, core.Payment, core.Begun) ([]conformance.Callback, error) {
	client := &http.Client{Timeout: callbackTimeout}
	return func(ctx context.Context, p core.Payment, begun core.Begun) ([]conformance.Callback, error) {
		ctx, cancel := context.WithTimeout(ctx, callbackTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, begun.PayURL, http.NoBody)
		if err != nil {
			return nil, err
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			return nil, notPaid{res.Status}
		}
		for {
			var c conformance.Callback
			select {
			case c = <-received:
			case <-ctx.Done():
				return nil, fmt.Errorf("204, and no callback of this payment within %s: %w", callbackTimeout, ctx.Err())
			}
			var of payment.Event
			if _ = json.Unmarshal(c.Body, &of); of.PaymentID != p.PaymentID {
				continue // of an earlier payment
			}
			if kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				return nil, fmt.Errorf("the callback has Content-Type %q", c.Header.Get("Content-Type"))
			}
			return []conformance.Callback{c}, nil
		}
	}
}
