package record_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/record"
)

// failing returns its error from each call.
type failing struct {
	core.Provider
	err error
}

func (*failing) Name() string                                 { return "p" }
func (f *failing) Cancel(context.Context, core.Payment) error { return f.err }
func (f *failing) Refund(context.Context, core.Payment) error { return f.err }

func (f *failing) Begin(context.Context, core.Payment, time.Time) (core.Begun, error) {
	return core.Begun{}, f.err
}

func (f *failing) FindRefund(context.Context, core.Payment) (r core.ProviderRefund, found bool, err error) {
	return r, false, f.err
}

func (f *failing) FindCharge(context.Context, core.Payment) (c core.Charge, found bool, err error) {
	return c, false, f.err
}

func (f *failing) Charges(context.Context, time.Time, string, int) ([]core.Charge, string, error) {
	return nil, "", f.err
}

func (f *failing) Refunds(context.Context, time.Time, string, int) ([]core.ProviderRefund, string, error) {
	return nil, "", f.err
}

// Each call is counted once, by its result, and returns its error.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	tel, _ := telemetry.Recording()
	counter, err := record.ProviderCalls(tel.Meter, []string{"p", "q"})
	require.NoError(t, err)
	f := &failing{}
	p := record.CountCalls(f, counter)
	call := func() (errs []error) {
		_, begin := p.Begin(t.Context(), core.Payment{}, time.Time{})
		_, _, refund := p.FindRefund(t.Context(), core.Payment{})
		_, _, charge := p.FindCharge(t.Context(), core.Payment{})
		_, _, charges := p.Charges(t.Context(), time.Time{}, "", 1)
		_, _, refunds := p.Refunds(t.Context(), time.Time{}, "", 1)
		return []error{begin, p.Cancel(t.Context(), core.Payment{}), p.Refund(t.Context(), core.Payment{}), refund, charge, charges, refunds}
	}
	for _, f.err = range []error{
		nil, fmt.Errorf("x: %w", &core.ProviderBusy{}), core.ErrPaymentDeclined, core.ErrRefundDeclined, errors.New("time-out"),
	} {
		for _, err := range call() {
			require.ErrorIs(t, err, f.err)
		}
	}
	rec := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	page := rec.Body.String()
	for _, name := range []string{"begin", "cancel", "refund", "find_refund", "find_charge", "charges", "refunds"} {
		for result, n := range map[string]int{"ok": 1, "busy": 1, "declined": 2, "failed": 1} {
			for provider, n := range map[string]int{"p": n, "q": 0} {
				require.Contains(t, page, fmt.Sprintf("flashsale_order_provider_calls_total{flashsale_call=%q,flashsale_outcome=%q,"+
					"flashsale_provider=%q} %d\n", name, result, provider, n))
			}
		}
	}
	require.Equal(t, 2*7*4, strings.Count(page, "flashsale_order_provider_calls_total{"))
}
