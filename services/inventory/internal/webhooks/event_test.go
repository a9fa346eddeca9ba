package webhooks

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/inventory/internal/ledger"
)

func TestTypesOfEvents(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for want, row := range map[string]ledger.Row{
		"":               {State: ledger.StateReserved},
		"order.created":  {State: ledger.StateReserved, OrderCreatedAt: &at},
		"order.paid":     {State: ledger.StateSold},
		"order.closed":   {State: ledger.StateReleased, Reason: ledger.ReasonExpired},
		"order.refunded": {State: ledger.StateReleased, Reason: ledger.ReasonRefunded},
		"order.failed":   {State: ledger.StateRejected, Reason: ledger.ReasonSoldOut},
	} {
		require.Equal(t, want, typeOf(row))
		require.Equal(t, want != "", slices.Contains(Types, want))
	}
}

// Ten attempts take three days, with a jitter of a tenth.
func TestPauses(t *testing.T) {
	t.Parallel()
	total := time.Duration(0)
	for _, p := range pauses {
		total += p
		j := jitter(p)
		require.InDelta(t, p.Seconds(), j.Seconds(), p.Seconds()/10+1)
	}
	require.Len(t, pauses, 9)
	require.InDelta(t, 75, total.Hours(), 1)
}
