// Package conform checks the server of a shop that takes payments itself.
package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/services/order/internal/core"
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

	of := func(secrets []string) *shop.Provider {
		return shop.New(shop.Config{CheckoutURL: o.CheckoutURL, APIURL: o.APIURL, Secrets: secrets, Now: time.Now})
	}
	subject := conformance.Subject{Provider: of(o.Secrets), New: newPayment, Pay: buyer(received)}
	cases := append(conformance.Cases(), conformance.Case{
		Name: "a request without a valid signature is refused",
		Run: func(ctx context.Context, _ conformance.Subject) error {
			_, _, err := of([]string{"another-secret-than-that-of-the-shop"}).Charges(ctx, time.Now(), "", 1)
			if !shop.Refused(err, http.StatusUnauthorized, "unauthenticated") {
				return errors.Join(errors.New("a request that another secret has signed is not 401 unauthenticated"), err)
			}
			return nil
		},
	}, conformance.Case{
		Name: "a checkout page with another amount is refused",
		Run: func(ctx context.Context, s conformance.Subject) error {
			return refusedPage(ctx, s, time.Now().Add(10*time.Minute), func(page string) string {
				return strings.Replace(page, "amount=1999", "amount=1", 1)
			})
		},
	}, conformance.Case{
		Name: "a checkout page that has expired is refused",
		Run: func(ctx context.Context, s conformance.Subject) error {
			return refusedPage(ctx, s, time.Now().Add(-time.Minute), func(page string) string { return page })
		},
	})
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

// refusedPage returns an error if a payment can be paid on its page after change, or if it is charged.
func refusedPage(ctx context.Context, s conformance.Subject, deadline time.Time, change func(string) string) error {
	p := s.New(1999, "EUR")
	begun, err := s.Begin(ctx, p, deadline)
	if err != nil {
		return err
	}
	begun.PayURL = change(begun.PayURL)
	if _, err := s.Pay(ctx, p, begun); err == nil {
		return errors.New("the payment was taken")
	}
	if _, found, err := s.FindCharge(ctx, p); err != nil || found {
		return errors.Join(fmt.Errorf("the payment was refused and charged (%t)", found), err)
	}
	return nil
}

// newPayment returns a payment with ids that no earlier run has used.
func newPayment(amount int64, currency string) core.Payment {
	now := time.Now()
	id := strconv.FormatInt(now.UnixNano(), 10)
	return core.Payment{
		PaymentID: id, OrderSN: id, UserID: "conform", Amount: amount, Currency: currency, CreatedAt: now,
	}
}

// buyer pays by a POST of the checkout page, and waits for the callback.
func buyer(received <-chan conformance.Callback) func(context.Context, core.Payment, core.Begun) ([]conformance.Callback, error) {
	client := &http.Client{Timeout: callbackTimeout}
	return func(ctx context.Context, _ core.Payment, begun core.Begun) ([]conformance.Callback, error) {
		for len(received) > 0 { // of an earlier payment
			<-received
		}
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
			return nil, fmt.Errorf("the checkout page responds %s", res.Status)
		}
		select {
		case c := <-received:
			return []conformance.Callback{c}, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("no callback: %w", ctx.Err())
		}
	}
}
