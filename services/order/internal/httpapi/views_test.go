package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/order/internal/core"
)

func TestAnOrderShowsUntilWhenAPaymentMayStillPayIt(t *testing.T) {
	until := time.Date(2026, 12, 1, 10, 2, 0, 0, time.UTC)
	o := core.Order{State: core.Pending, Currency: "EUR", PayingUntil: until}
	require.Equal(t, until, *orderView(o, contract.ActivityInfo{}).PayingUntil)
	o.PayingUntil = time.Time{}
	require.Nil(t, orderView(o, contract.ActivityInfo{}).PayingUntil)
	for _, state := range []core.State{core.Paid, core.Closed, core.Refunded} {
		o.State, o.PayingUntil = state, until
		require.Nil(t, orderView(o, contract.ActivityInfo{}).PayingUntil, state)
	}
}
