package stripe_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment/conformance"
	"flashsale.internal/services/order/internal/payment/stripe"
	"flashsale.internal/services/order/stripefake"
)

const (
	key    = "sk_test_ofTheAccount"
	secret = "whsec_of_the_endpoint_of_order"
)

// account is a fake account and the provider of it.
type account struct {
	*stripefake.Stripe
	url string
	of  *stripe.Provider
	now atomic.Int64 // seconds by which the clock of the fake is ahead
}

func open(t *testing.T, changes ...func(*stripe.Config)) *account {
	t.Helper()
	a := &account{}
	now := func() time.Time { return time.Now().Add(time.Duration(a.now.Load()) * time.Second) }
	a.Stripe = stripefake.New(stripefake.Config{
		Key: key, Secret: secret, Now: now, Rate: 1000, Methods: []string{"alipay", "wechat_pay"},
	})
	srv := httptest.NewServer(a.Stripe)
	t.Cleanup(srv.Close)
	a.url = srv.URL
	cfg := stripe.Config{
		Key: key, WebhookSecrets: []string{"whsec_another_one", secret}, APIURL: srv.URL, Methods: []string{"card"},
		PublicURL: "https://shop.example.com", Now: now,
	}
	for _, c := range changes {
		c(&cfg)
	}
	a.of = stripe.New(cfg)
	return a
}

var lastID atomic.Int64

func payment(amount int64, currency string) core.Payment {
	id := strconv.FormatInt(lastID.Add(1), 10)
	return core.Payment{
		PaymentID: id, OrderSN: "7" + id, UserID: "u1", Amount: amount, Currency: currency, CreatedAt: time.Now(),
		PaidAmount: amount, PaidCurrency: currency,
	}
}

// begun begins a payment, and returns it with its reference.
func (a *account) begun(t *testing.T, amount int64, currency string) core.Payment {
	t.Helper()
	p := payment(amount, currency)
	b, err := a.of.Begin(t.Context(), p, time.Now())
	require.NoError(t, err)
	p.Reference = b.Reference
	return p
}

func TestConformance(t *testing.T) {
	t.Parallel()
	a := open(t, func(c *stripe.Config) { c.Methods = []string{"card", "alipay", "wechat_pay"} })
	s := conformance.Subject{
		Provider: a.of, New: payment,
		Pay: func(_ context.Context, p core.Payment, begun core.Begun) ([]conformance.Callback, error) {
			before := len(a.Events())
			if err := a.Pay(begun.Reference); err != nil {
				return nil, err
			}
			var sent []conformance.Callback
			for _, e := range a.Events()[before:] {
				sent = append(sent, conformance.Callback{Header: a.Headers(e, secret, time.Now()), Body: e.Body})
			}
			return sent, nil
		},
	}
	for _, c := range conformance.Cases() {
		require.NoError(t, c.Run(t.Context(), s), c.Name)
	}
}

// Every currency that ToStripe takes reaches Stripe as the same money, and comes back in the event.
func TestAllCurrencies(t *testing.T) {
	t.Parallel()
	a := open(t, func(c *stripe.Config) { c.Methods = []string{"card", "alipay", "wechat_pay"} })
	for _, code := range contract.Currencies() {
		const amount = 7000
		if _, err := contract.ToStripe(amount, code); err != nil {
			_, err = a.of.Begin(t.Context(), payment(amount, code), time.Now())
			require.ErrorIs(t, err, core.ErrPaymentDeclined)
			continue
		}
		p := a.begun(t, amount, code)
		require.NoError(t, a.Pay(p.Reference), code)
		done := a.Events("checkout.session.completed")
		e := done[len(done)-1]
		events, err := a.of.Parse(t.Context(), a.Headers(e, secret, time.Now()), e.Body)
		require.NoError(t, err)
		require.Len(t, events, 1)
		require.Equal(t, []any{p.PaymentID, int64(amount), code}, []any{events[0].PaymentID, events[0].Amount, events[0].Currency})
		require.NoError(t, a.of.Refund(t.Context(), p), code)
	}
}

// An event counts with a recent signature by one of the secrets only, and only types that concern a payment count.
func TestEvents(t *testing.T) {
	t.Parallel()
	a := open(t)
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Decline(p.Reference))
	require.NoError(t, a.Pay(p.Reference))
	require.NoError(t, a.RefundByHand(p.Reference, 500))
	require.NoError(t, a.Dispute(p.Reference))
	other := a.begun(t, 1999, "EUR")
	require.NoError(t, a.of.Cancel(t.Context(), other))
	third := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(third.Reference))
	require.NoError(t, a.of.Refund(t.Context(), third))
	require.NoError(t, a.FailRefunds(third.Reference))
	require.NoError(t, a.FailRefunds(p.Reference))

	type event struct {
		id      string
		outcome core.Outcome
		amount  int64
	}
	var got []event
	for _, e := range a.Events() {
		events, err := a.of.Parse(t.Context(), a.Headers(e, secret, time.Now()), e.Body)
		require.NoError(t, err, e.Type)
		for _, found := range events {
			require.Equal(t, []string{stripe.Name, e.ID, "EUR"}, []string{found.Provider, found.EventID, found.Currency})
			require.Contains(t, stripe.Events, e.Type)
			got = append(got, event{found.PaymentID, found.Outcome, found.Amount})
		}
	}
	require.Equal(t, []event{
		{p.PaymentID, core.OutcomeSucceeded, 1999},
		{p.PaymentID, core.OutcomeReturned, 500},
		{p.PaymentID, core.OutcomeDisputed, 1999},
		{other.PaymentID, core.OutcomeFailed, 1999},
		{third.PaymentID, core.OutcomeSucceeded, 1999},
		{third.PaymentID, core.OutcomeRefundFailed, 1999},
		{third.PaymentID, core.OutcomeRefundFailed, 1999},
		{p.PaymentID, core.OutcomeRefundFailed, 500},
		{p.PaymentID, core.OutcomeRefundFailed, 500},
	}, got, "a refund by order itself is no event")

	e := a.Events("checkout.session.completed")[0]
	for name, h := range map[string]http.Header{
		"another secret": a.Headers(e, "whsec_of_somebody_else", time.Now()),
		"old":            a.Headers(e, secret, time.Now().Add(-6*time.Minute)),
		"none":           {},
		"malformed":      {"Stripe-Signature": {"t=x,v1=y"}},
	} {
		_, err := a.of.Parse(t.Context(), h, e.Body)
		require.Equal(t, contract.CodeUnauthenticated, contract.CodeOf(err), name)
	}
	a.SetFault(func(string, string) stripefake.Fault { return stripefake.FaultBefore })
	e = a.Events("charge.dispute.created")[0]
	_, err := a.of.Parse(t.Context(), a.Headers(e, secret, time.Now()), e.Body)
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err), "Stripe repeats the event")
	a.SetFault(func(string, string) stripefake.Fault { return stripefake.FaultForbidden })
	unread, err := a.of.Parse(t.Context(), a.Headers(e, secret, time.Now()), e.Body)
	require.NoError(t, err)
	require.Len(t, unread, 1)
	require.Empty(t, unread[0].PaymentID)
	require.Contains(t, unread[0].Reference, "pi_")
	e.Body = []byte(`[]`)
	_, err = a.of.Parse(t.Context(), a.Headers(e, secret, time.Now()), e.Body)
	require.Equal(t, contract.CodeInvalidRequest, contract.CodeOf(err))
}

// once has the next call of a path meet a fault.
func (a *account) once(path string, f stripefake.Fault) {
	done := false
	a.SetFault(func(method, p string) stripefake.Fault {
		if done || method != http.MethodPost || p != path {
			return stripefake.FaultNone
		}
		done = true
		return f
	})
}

// What follows each failure of a call, and of the same call repeated.
func TestFailures(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var busy *core.ProviderBusy
	for name, c := range map[string]struct {
		fault stripefake.Fault
		first func(t *testing.T, err error)
	}{
		"busy": {stripefake.FaultBusy, func(t *testing.T, err error) { require.ErrorAs(t, err, &busy) }},
		"closed": {stripefake.FaultClosed, func(t *testing.T, err error) {
			var wait *core.ProviderBusy
			require.ErrorAs(t, err, &wait)
			require.Equal(t, 7*time.Second, wait.After)
		}},
		"locked":        {stripefake.FaultLocked, func(t *testing.T, err error) { require.ErrorAs(t, err, &busy) }},
		"failed before": {stripefake.FaultBefore, func(t *testing.T, err error) { require.ErrorContains(t, err, "500") }},
		"failed after":  {stripefake.FaultAfter, func(t *testing.T, err error) { require.ErrorContains(t, err, "500") }},
		"lost":          {stripefake.FaultLost, func(*testing.T, error) {}}, // net/http may repeat a request with a key
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t)
			p := payment(1999, "EUR")
			a.once("/v1/checkout/sessions", c.fault)
			_, err := a.of.Begin(ctx, p, time.Now())
			c.first(t, err)
			require.NotErrorIs(t, err, core.ErrPaymentDeclined)
			begun, err := a.of.Begin(ctx, p, time.Now())
			if c.fault == stripefake.FaultBefore || c.fault == stripefake.FaultAfter {
				require.ErrorIs(t, err, core.ErrPaymentDeclined, "Stripe repeats its failure: another payment is needed")
			} else {
				require.NoError(t, err)
				require.NotEmpty(t, begun.PayURL)
			}

			p = a.begun(t, 1999, "EUR")
			require.NoError(t, a.Pay(p.Reference))
			a.once("/v1/refunds", c.fault)
			err = a.of.Refund(ctx, p)
			c.first(t, err)
			require.NotErrorIs(t, err, core.ErrRefundDeclined)
			for range 3 {
				require.NoError(t, a.of.Refund(ctx, p))
			}
			taken := a.Taken()
			require.Equal(t, []any{int64(1999), 1}, []any{taken[0].Refunded, taken[0].Refunds})
		})
	}
}

// A refusal of a refund is final, and an operator decides; whatever an operator can correct at the account is not.
func TestRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := open(t)
	disputed, partly, unpaid := a.begun(t, 1999, "EUR"), a.begun(t, 1999, "EUR"), a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(disputed.Reference))
	require.NoError(t, a.Dispute(disputed.Reference))
	require.NoError(t, a.Pay(partly.Reference))
	require.NoError(t, a.RefundByHand(partly.Reference, 500))
	for _, p := range []core.Payment{disputed, partly, unpaid, payment(1999, "EUR")} {
		require.ErrorIs(t, a.of.Refund(ctx, p), core.ErrRefundDeclined)
	}
	require.NoError(t, a.WinDispute(disputed.Reference))
	require.NoError(t, a.of.Refund(ctx, disputed), "Stripe has stored its refusal under the key, and an operator retries")
	made, found, err := a.of.FindRefund(ctx, partly)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 500, made.Amount)
	byHand := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(byHand.Reference))
	require.NoError(t, a.RefundByHand(byHand.Reference, 0))
	require.NoError(t, a.of.Refund(ctx, byHand), "the dashboard was faster")

	_, err = a.of.Begin(ctx, payment(49, "EUR"), time.Now())
	require.ErrorIs(t, err, core.ErrPaymentDeclined)
	require.ErrorContains(t, err, "amount_too_small")

	wrong := open(t, func(c *stripe.Config) { c.Key = "sk_test_of_another" })
	_, err = wrong.of.Begin(ctx, payment(1999, "EUR"), time.Now())
	require.ErrorContains(t, err, "401")
	require.NotErrorIs(t, err, core.ErrPaymentDeclined)
	require.NotContains(t, err.Error(), "sk_test")
}

// A session ends once: by its buyer, by order, or by its time.
func TestWhoEndsASession(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := open(t)
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.of.Cancel(ctx, p))
	require.Error(t, a.Pay(p.Reference))
	p = a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(p.Reference))
	require.NoError(t, a.of.Cancel(ctx, p), "it was paid, and its event reports that")
	require.Len(t, a.Events("checkout.session.completed"), 1)

	p = a.begun(t, 1999, "EUR")
	a.now.Add(3601)
	require.Error(t, a.Pay(p.Reference), "it has expired")
	require.NoError(t, a.of.Cancel(ctx, p))
	require.Len(t, a.Events("checkout.session.expired"), 2)
	require.NoError(t, a.of.Cancel(ctx, payment(1999, "EUR")), "it was never begun")
}

// The fake counts its requests as Stripe does, for each endpoint by itself.
func TestTheLimitOfStripe(t *testing.T) {
	t.Parallel()
	limited := stripefake.New(stripefake.Config{Key: key, Secret: secret, Now: func() time.Time { return time.Unix(1, 0) }})
	srv := httptest.NewServer(limited)
	t.Cleanup(srv.Close)
	of := stripe.New(stripe.Config{Key: key, APIURL: srv.URL, Now: time.Now})
	for range 25 {
		_, _, err := of.Charges(t.Context(), time.Unix(0, 0), "", 1)
		require.NoError(t, err)
	}
	_, _, err := of.Charges(t.Context(), time.Unix(0, 0), "", 1)
	var busy *core.ProviderBusy
	require.ErrorAs(t, err, &busy)
	require.Equal(t, time.Second, busy.After)
	_, _, err = of.Refunds(t.Context(), time.Unix(0, 0), "", 1)
	require.NoError(t, err)
	require.Equal(t, 26, limited.Calls("GET /v1/charges"))
}

// Without a reference, as after a restore of the database, charge and refund are found among all.
func TestAPaymentWithoutAReference(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := open(t)
	for range 120 { // more than a page
		p := a.begun(t, 1999, "EUR")
		require.NoError(t, a.Pay(p.Reference))
	}
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(p.Reference))
	for range 120 {
		p := a.begun(t, 1999, "EUR")
		require.NoError(t, a.Pay(p.Reference))
	}
	p.Reference = ""
	c, found, err := a.of.FindCharge(ctx, p)
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, strings.HasPrefix(c.Reference, "pi_"))
	require.NoError(t, a.of.Refund(ctx, p))
	_, found, err = a.of.FindRefund(ctx, p)
	require.NoError(t, err)
	require.True(t, found)
}

// After a changed setting a payment keeps its session: no buyer gets two that can be paid.
func TestABegunPaymentKeepsItsSession(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var cfg stripe.Config
	a := open(t, func(c *stripe.Config) { cfg = *c })
	cfg.APIURL, cfg.PublicURL, cfg.Methods = a.url, "https://www.example.com", []string{"card", "alipay"}
	changed := stripe.New(cfg)
	p := payment(1999, "EUR")
	first, err := a.of.Begin(ctx, p, time.Now())
	require.NoError(t, err)
	_, err = changed.Begin(ctx, p, time.Now()) // before the id of the session is stored
	require.ErrorContains(t, err, "idempotency_error")
	require.NotErrorIs(t, err, core.ErrPaymentDeclined)
	p.Reference = first.Reference
	again, err := changed.Begin(ctx, p, time.Now())
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, 2, a.Calls("POST /v1/checkout/sessions"))

	paid := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(paid.Reference))
	_, err = a.of.Begin(ctx, paid, time.Now())
	require.ErrorContains(t, err, "complete")
	require.NotErrorIs(t, err, core.ErrPaymentEnded)
	require.NoError(t, a.of.Cancel(ctx, p))
	_, err = a.of.Begin(ctx, p, time.Now())
	require.ErrorIs(t, err, core.ErrPaymentEnded)
}

// Stripe takes no session that ends within 30 minutes. So a payment that has none for long has ended.
func TestALatePaymentHasEnded(t *testing.T) {
	t.Parallel()
	a := open(t)
	late, begun := payment(1999, "EUR"), a.begun(t, 1999, "EUR")
	a.now.Store(24 * 60)
	_, err := a.of.Begin(t.Context(), payment(1999, "EUR"), time.Now())
	require.NoError(t, err)
	a.now.Store(31 * 60)
	_, err = a.of.Begin(t.Context(), late, time.Now())
	require.ErrorIs(t, err, core.ErrPaymentEnded)
	_, err = a.of.Begin(t.Context(), begun, time.Now())
	require.NoError(t, err)
}

// What ends by itself, or by an operator who corrects the account or the key, is no refusal for good.
func TestCurableRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := open(t)
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(p.Reference))
	curable := func(of *stripe.Provider, p core.Payment, text string) {
		t.Helper()
		err := of.Refund(ctx, p)
		require.ErrorContains(t, err, text)
		require.NotErrorIs(t, err, core.ErrRefundDeclined)
	}
	a.SetEmpty(true)
	for range 2 {
		curable(a.of, p, "balance_insufficient")
	}
	a.SetEmpty(false)
	a.once("/v1/refunds", stripefake.FaultForbidden)
	curable(a.of, p, "403")
	a.now.Add(3600)
	require.NoError(t, a.of.Refund(ctx, p))

	// The id is of another account.
	other := open(t)
	curable(other.of, p, "404")
	p.Reference = "pi_unknown"
	curable(other.of, p, "400")
	for _, reference := range []string{"cs_unknown", "pi_unknown"} {
		p.Reference = reference
		_, found, err := other.of.FindCharge(ctx, p)
		require.NoError(t, err)
		require.False(t, found)
		_, found, err = other.of.FindRefund(ctx, p)
		require.NoError(t, err)
		require.False(t, found)
	}
	wrong := open(t, func(c *stripe.Config) { c.Key = "sk_test_of_another" })
	_, _, err := wrong.of.FindCharge(ctx, p)
	require.ErrorContains(t, err, "401")
}

// A refund that has failed is made under another key, whatever Stripe has stored under the first one.
func TestAFailedRefundIsMadeAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := open(t)
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(p.Reference))
	a.FailNextRefund()
	require.NoError(t, a.of.Refund(ctx, p), "the second key, at once")

	require.NoError(t, a.FailRefunds(p.Reference))
	_, found, err := a.of.FindRefund(ctx, p)
	require.NoError(t, err)
	require.False(t, found)
	err = a.of.Refund(ctx, p)
	require.ErrorContains(t, err, "stripe repeats", "both keys hold a success")
	require.NotErrorIs(t, err, core.ErrRefundDeclined)
	a.now.Add(3600)
	require.NoError(t, a.of.Refund(ctx, p))
	require.Equal(t, 1, a.Taken()[0].Refunds)
}

// The dashboard is faster than the second key.
func TestARefundOfTheDashboardMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := open(t)
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(p.Reference))
	a.once("/v1/refunds", stripefake.FaultBefore)
	require.Error(t, a.of.Refund(ctx, p))
	byHand := false
	a.SetFault(func(method, path string) stripefake.Fault {
		if method == http.MethodGet && path == "/v1/refunds" && !byHand {
			byHand = true
			return stripefake.FaultRefunded
		}
		return stripefake.FaultNone
	})
	err := a.of.Refund(ctx, p)
	require.ErrorContains(t, err, "charge_already_refunded")
	require.NotErrorIs(t, err, core.ErrRefundDeclined)
	require.NoError(t, a.of.Refund(ctx, p))
}

// Two installations with one account see each other's payments, each with the mark of the other one.
func TestAnotherInstallationOfTheAccount(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var cfg stripe.Config
	a := open(t, func(c *stripe.Config) { cfg = *c })
	cfg.APIURL, cfg.PublicURL = a.url, "http://shop.example.com:8443/sales"
	moved := stripe.New(cfg)
	cfg.PublicURL = "https://test.example.com"
	other := stripe.New(cfg)
	p := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(p.Reference))
	require.NoError(t, a.RefundByHand(p.Reference, 0))
	require.NoError(t, a.Dispute(p.Reference))
	for provider, want := range map[*stripe.Provider]bool{a.of: false, moved: false, other: true} {
		charges, _, err := provider.Charges(ctx, time.Unix(0, 0), "", 10)
		require.NoError(t, err)
		require.Equal(t, want, charges[0].OtherInstallation)
		refunds, _, err := provider.Refunds(ctx, time.Unix(0, 0), "", 10)
		require.NoError(t, err)
		require.Equal(t, want, refunds[0].OtherInstallation)
		read := 0
		for _, e := range a.Events(stripe.Events...) {
			events, err := provider.Parse(ctx, a.Headers(e, secret, time.Now()), e.Body)
			require.NoError(t, err)
			for _, found := range events {
				require.Equal(t, want, found.OtherInstallation, e.Type)
				read++
			}
		}
		require.Equal(t, 3, read)
	}
}
