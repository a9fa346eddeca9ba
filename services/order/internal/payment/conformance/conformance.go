// Package conformance has the cases that each payment provider must pass: what core.Provider promises, seen from the
// service. It uses no test library, so that a command can run it against the server of a shop.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

// Callback is a request of a provider to the service.
type Callback struct {
	Header http.Header
	Body   []byte
}

// Subject is a provider, with what its buyers do.
type Subject struct {
	core.Provider
	// New returns a payment of an amount in minor units that the provider does not have yet.
	New func(amount int64, currency string) core.Payment
	// Pay pays a payment as its buyer, and returns the callbacks that follow, at least one. An error means that the
	// provider does not let the buyer pay.
	Pay func(ctx context.Context, p core.Payment, begun core.Begun) ([]Callback, error)
}

// Case is one promise of core.Provider.
type Case struct {
	Name string
	Run  func(ctx context.Context, s Subject) error
}

// Cases returns all cases. They may run in any order, one after the other, and leave payments and refunds behind.
func Cases() []Case {
	return []Case{
		{"a payment is begun once", begunOnce},
		{"a success is reported with its amount", successReported},
		{"a callback without a valid signature is refused", signatureChecked},
		{"a charge can be found", chargeFound},
		{"a refund is made once", refundedOnce},
		{"charges and refunds are listed page by page, each once", listed},
		{"a cancelled payment cannot be paid, or is reported", cancelled},
		{"a paid payment can be cancelled without effect", cancelledAfterwards},
	}
}

// amounts have a currency with two, with no and with three decimals.
var amounts = []struct {
	amount   int64
	currency string
}{{1999, "EUR"}, {500, "JPY"}, {12340, "KWD"}}

func begin(ctx context.Context, s Subject, p core.Payment) (core.Payment, core.Begun, error) {
	begun, err := s.Begin(ctx, p, time.Now().Add(10*time.Minute))
	if err != nil {
		return p, begun, fmt.Errorf("begin: %w", err)
	}
	if begun.PayURL == "" {
		return p, begun, errors.New("begin: no pay_url")
	}
	p.Reference = begun.Reference
	return p, begun, nil
}

// paid begins and pays a payment, and returns it as the service then has it.
func paid(ctx context.Context, s Subject, amount int64, currency string) (core.Payment, []Callback, error) {
	p, begun, err := begin(ctx, s, s.New(amount, currency))
	if err != nil {
		return p, nil, err
	}
	callbacks, err := s.Pay(ctx, p, begun)
	if err != nil {
		return p, nil, fmt.Errorf("pay: %w", err)
	}
	e, err := success(ctx, s, p, callbacks)
	if err != nil {
		return p, nil, err
	}
	p.State, p.PaidAmount, p.PaidCurrency = core.PaymentSucceeded, e.Amount, e.Currency
	if e.Reference != "" {
		p.Reference = e.Reference
	}
	return p, callbacks, nil
}

// success returns the success of a payment among its callbacks.
func success(ctx context.Context, s Subject, p core.Payment, callbacks []Callback) (found core.PaymentEvent, err error) {
	for _, c := range callbacks {
		events, err := s.Parse(ctx, c.Header, c.Body)
		if err != nil {
			return found, fmt.Errorf("parse a callback: %w", err)
		}
		for _, e := range events {
			if e.PaymentID != p.PaymentID || e.Outcome != core.OutcomeSucceeded {
				continue
			}
			if e.Provider != s.Name() || e.EventID == "" {
				return found, fmt.Errorf("event has provider %q and event_id %q", e.Provider, e.EventID)
			}
			found = e
		}
	}
	if found.EventID == "" {
		return found, errors.New("no callback reports the success")
	}
	return found, nil
}

func begunOnce(ctx context.Context, s Subject) error {
	for _, a := range amounts {
		p, first, err := begin(ctx, s, s.New(a.amount, a.currency))
		if err != nil {
			return err
		}
		_, second, err := begin(ctx, s, p)
		if err != nil {
			return err
		}
		if second.Reference != first.Reference || second.PayURL == "" {
			return fmt.Errorf("a repeated begin returns %+v, the first returned %+v", second, first)
		}
	}
	return nil
}

func successReported(ctx context.Context, s Subject) error {
	for _, a := range amounts {
		p, callbacks, err := paid(ctx, s, a.amount, a.currency)
		if err != nil {
			return err
		}
		if p.PaidAmount != a.amount || p.PaidCurrency != a.currency {
			return fmt.Errorf("%d %s were paid, and %d %s are reported", a.amount, a.currency, p.PaidAmount, p.PaidCurrency)
		}
		first, _ := success(ctx, s, p, callbacks)
		if again, err := success(ctx, s, p, callbacks); err != nil || again.EventID != first.EventID {
			return errors.Join(fmt.Errorf("a repeated callback has event_id %q, the first %q", again.EventID, first.EventID), err)
		}
	}
	return nil
}

func signatureChecked(ctx context.Context, s Subject) error {
	_, callbacks, err := paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	for _, c := range callbacks {
		changed := append([]byte(nil), c.Body...)
		changed[len(changed)/2] ^= 1
		none := http.Header{"Content-Type": c.Header["Content-Type"]}
		for what, err := range map[string]error{
			"with a changed byte": parseError(ctx, s, c.Header, changed), "without a signature": parseError(ctx, s, none, c.Body),
		} {
			if contract.CodeOf(err) != contract.CodeUnauthenticated {
				return errors.Join(fmt.Errorf("a callback %s is not refused as unauthenticated", what), err)
			}
		}
	}
	return nil
}

func parseError(ctx context.Context, s Subject, h http.Header, body []byte) error {
	_, err := s.Parse(ctx, h, body)
	return err
}

func chargeFound(ctx context.Context, s Subject) error {
	unknown := s.New(1999, "EUR")
	if _, found, err := s.FindCharge(ctx, unknown); err != nil || found {
		return errors.Join(fmt.Errorf("a charge that was never made: found %t", found), err)
	}
	p, _, err := paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	c, found, err := s.FindCharge(ctx, p)
	if err != nil || !found {
		return errors.Join(fmt.Errorf("the charge of a paid payment: found %t", found), err)
	}
	return sameCharge(c, p)
}

func sameCharge(c core.Charge, p core.Payment) error {
	if c.PaymentID != p.PaymentID || c.OrderSN != p.OrderSN || c.Amount != p.PaidAmount || c.Currency != p.PaidCurrency {
		return fmt.Errorf("charge %+v differs from payment %+v", c, p)
	}
	if d := time.Since(c.At); d < -time.Hour || d > 24*time.Hour {
		return fmt.Errorf("the charge was made at %s", c.At)
	}
	return nil
}

func refundedOnce(ctx context.Context, s Subject) error {
	since := time.Now().Add(-time.Minute)
	p, _, err := paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	if _, found, err := s.FindRefund(ctx, p); err != nil || found {
		return errors.Join(fmt.Errorf("a refund that was never made: found %t", found), err)
	}
	for range 2 {
		if err := s.Refund(ctx, p); err != nil {
			return fmt.Errorf("refund: %w", err)
		}
	}
	made, found, err := s.FindRefund(ctx, p)
	if err != nil || !found || made.Amount != p.PaidAmount || made.Currency != p.PaidCurrency {
		return errors.Join(fmt.Errorf("the refund of %+v: found %t, %+v", p, found, made), err)
	}
	n := 0
	err = all(ctx, s.Refunds, since, func(r core.ProviderRefund) error {
		if r.RefundID == p.PaymentID {
			n++
		}
		return nil
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("two calls made %d refunds", n)
	}
	return err
}

// all calls each for what is listed since a time, in pages of two.
func all[T any](
	ctx context.Context, list func(context.Context, time.Time, string, int) ([]T, string, error), since time.Time,
	each func(T) error,
) error {
	cursor := ""
	for range 10_000 {
		page, next, err := list(ctx, since, cursor, 2)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for _, item := range page {
			if err := each(item); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
	return errors.New("the list has no end")
}

func listed(ctx context.Context, s Subject) error {
	since := time.Now().Add(-time.Minute)
	want := map[string]core.Payment{}
	for range 5 {
		p, _, err := paid(ctx, s, 1999, "EUR")
		if err != nil {
			return err
		}
		want[p.PaymentID] = p
	}
	seen := map[string]bool{}
	err := all(ctx, s.Charges, since, func(c core.Charge) error {
		if seen[c.PaymentID] {
			return fmt.Errorf("charge %s is listed twice", c.PaymentID)
		}
		seen[c.PaymentID] = true
		p, ok := want[c.PaymentID]
		if !ok {
			return nil // of another case
		}
		delete(want, c.PaymentID)
		return sameCharge(c, p)
	})
	if err == nil && len(want) > 0 {
		err = fmt.Errorf("%d of 5 charges are not listed", len(want))
	}
	return err
}

func cancelled(ctx context.Context, s Subject) error {
	p, begun, err := begin(ctx, s, s.New(1999, "EUR"))
	if err != nil {
		return err
	}
	for range 2 {
		if err := s.Cancel(ctx, p); err != nil {
			return fmt.Errorf("cancel: %w", err)
		}
	}
	callbacks, err := s.Pay(ctx, p, begun)
	if err != nil {
		if _, found, err := s.FindCharge(ctx, p); err != nil || found {
			return errors.Join(fmt.Errorf("a payment that could not be paid is charged (%t)", found), err)
		}
		return nil
	}
	_, err = success(ctx, s, p, callbacks)
	return err
}

func cancelledAfterwards(ctx context.Context, s Subject) error {
	p, _, err := paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	if err := s.Cancel(ctx, p); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if _, found, err := s.FindCharge(ctx, p); err != nil || !found {
		return errors.Join(fmt.Errorf("the charge after a cancellation: found %t", found), err)
	}
	if _, found, err := s.FindRefund(ctx, p); err != nil || found {
		return errors.Join(fmt.Errorf("the cancellation made a refund (%t)", found), err)
	}
	return nil
}
