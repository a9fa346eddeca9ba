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
		{"a payment is taken once", takenOnce},
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

// Paid begins and pays a payment, and returns it as the service then has it, with its callbacks.
func Paid(ctx context.Context, s Subject, amount int64, currency string) (core.Payment, []Callback, error) {
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
		p, callbacks, err := Paid(ctx, s, a.amount, a.currency)
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

func takenOnce(ctx context.Context, s Subject) error {
	since := time.Now().Add(-clocks)
	p, callbacks, err := Paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	first, err := success(ctx, s, p, callbacks)
	if err != nil {
		return err
	}
	again, begun, err := begin(ctx, s, p)
	if err != nil {
		return err
	}
	if callbacks, err = s.Pay(ctx, again, begun); err == nil {
		if second, err := success(ctx, s, p, callbacks); err != nil || second.EventID != first.EventID {
			return errors.Join(fmt.Errorf("a buyer who pays again is reported by event %q, before by %q", second.EventID, first.EventID), err)
		}
	}
	return listedOnce(ctx, s.Charges, since, map[string]core.Payment{p.PaymentID: p}, chargeAt)
}

func chargeAt(c core.Charge) (paymentID string, at time.Time) { return c.PaymentID, c.At }

func signatureChecked(ctx context.Context, s Subject) error {
	_, callbacks, err := Paid(ctx, s, 1999, "EUR")
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
	if err := Missing(ctx, s.FindCharge, unknown, "a charge that was never made"); err != nil {
		return err
	}
	p, _, err := Paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	c, found, err := s.FindCharge(ctx, p)
	if err != nil {
		return err
	}
	if !found {
		return errors.New("the charge of a paid payment is not found")
	}
	return sameCharge(c, p)
}

// Missing returns an error if a charge or refund is found.
func Missing[T any](
	ctx context.Context, find func(context.Context, core.Payment) (T, bool, error), p core.Payment, what string,
) error {
	got, found, err := find(ctx, p)
	if err == nil && found {
		err = fmt.Errorf("%s is found: %+v", what, got)
	}
	return err
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
	since := time.Now().Add(-clocks)
	want := map[string]core.Payment{}
	for range 3 {
		p, _, err := Paid(ctx, s, 1999, "EUR")
		if err == nil {
			err = Missing(ctx, s.FindRefund, p, "a refund that was never made")
		}
		if err != nil {
			return err
		}
		for range 2 {
			if err := s.Refund(ctx, p); err != nil {
				return fmt.Errorf("refund: %w", err)
			}
		}
		made, found, err := s.FindRefund(ctx, p)
		if err != nil {
			return err
		}
		if !found || made.Amount != p.PaidAmount || made.Currency != p.PaidCurrency {
			return fmt.Errorf("the refund of %+v: found %t, %+v", p, found, made)
		}
		want[p.PaymentID] = p
	}
	return listedOnce(ctx, s.Refunds, since, want, func(r core.ProviderRefund) (string, time.Time) { return r.RefundID, r.At })
}

// listedOnce returns an error unless each of the payments is listed once since a time, and not since a later one.
func listedOnce[T any](
	ctx context.Context, list func(context.Context, time.Time, string, int) ([]T, string, error), since time.Time,
	want map[string]core.Payment, of func(T) (paymentID string, at time.Time),
) error {
	times, last := map[string]int{}, since
	err := all(ctx, list, since, func(item T) error {
		id, at := of(item)
		if _, ok := want[id]; ok && at.After(last) {
			last = at
		}
		times[id]++
		return nil
	})
	if err != nil {
		return err
	}
	for id := range want {
		if times[id] != 1 {
			return fmt.Errorf("payment %s is listed %d times", id, times[id])
		}
	}
	return all(ctx, list, last.Add(2*time.Second), func(item T) error {
		if id, at := of(item); want[id].PaymentID != "" {
			return fmt.Errorf("payment %s of %s is listed since %s", id, at, last.Add(2*time.Second))
		}
		return nil
	})
}

const (
	pageLimit = 2
	clocks    = 10 * time.Minute // by which those of the provider and of the command may differ
)

// all calls each for what is listed since a time.
func all[T any](
	ctx context.Context, list func(context.Context, time.Time, string, int) ([]T, string, error), since time.Time,
	each func(T) error,
) error {
	cursor := ""
	for range 10_000 {
		page, next, err := list(ctx, since, cursor, pageLimit)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if len(page) > pageLimit {
			return fmt.Errorf("a page of at most %d has %d", pageLimit, len(page))
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
	since := time.Now().Add(-clocks)
	want := map[string]core.Payment{}
	for range 5 {
		p, _, err := Paid(ctx, s, 1999, "EUR")
		if err != nil {
			return err
		}
		want[p.PaymentID] = p
	}
	err := all(ctx, s.Charges, since, func(c core.Charge) error {
		if p, ok := want[c.PaymentID]; ok {
			return sameCharge(c, p)
		}
		return nil // of another case
	})
	if err != nil {
		return err
	}
	return listedOnce(ctx, s.Charges, since, want, chargeAt)
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
		return Missing(ctx, s.FindCharge, p, "the charge of a payment that could not be paid")
	}
	_, err = success(ctx, s, p, callbacks)
	return err
}

func cancelledAfterwards(ctx context.Context, s Subject) error {
	p, _, err := Paid(ctx, s, 1999, "EUR")
	if err != nil {
		return err
	}
	if err := s.Cancel(ctx, p); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	if _, found, err := s.FindCharge(ctx, p); err != nil || !found {
		return errors.Join(errors.New("the charge is not found after a cancellation"), err)
	}
	return Missing(ctx, s.FindRefund, p, "a refund by the cancellation")
}
