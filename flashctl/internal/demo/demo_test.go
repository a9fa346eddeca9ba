package demo_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/demo"
	"flashsale.internal/flashctl/internal/shoptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func play(t *testing.T, faults shoptest.Faults) (*demo.Table, string, error) {
	t.Helper()
	shop := shoptest.Start(t, faults)
	c := client.New(client.Single(shop.URL), client.Options{Connections: 32})
	t.Cleanup(c.Close)
	plan := demo.Plan{
		Units: 10, Buyers: 60, PayWithin: 5 * time.Second, LateAtMost: 500 * time.Millisecond,
		SettleWithin: 5 * time.Second, Width: 16,
	}
	table, err := demo.Run(t.Context(), c, plan, io.Discard)
	var out bytes.Buffer
	require.NoError(t, table.Print(&out))
	return table, out.String(), err
}

func TestCorrectSaleHasNoWrongRow(t *testing.T) {
	t.Parallel()
	table, out, err := play(t, shoptest.Faults{Refuses: 3})
	require.NoError(t, err, out)
	require.Zero(t, table.Wrong(), out)
	require.Contains(t, out, "Everything is sold")
}

func TestFaultsAreWrongRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults shoptest.Faults
		want   string
	}{
		"one unit too many":      {shoptest.Faults{Oversell: 1}, `accepted\s+10\s+11\s+WRONG`},
		"closed too early":       {shoptest.Faults{CloseEarly: 300 * time.Millisecond}, `closed before the deadline\s+never\s+300 ms early\s+WRONG`},
		"closed too late":        {shoptest.Faults{CloseLate: 700 * time.Millisecond}, `closed after the deadline\s+at most 500ms\s+700 ms after it\s+WRONG`},
		"units are not released": {shoptest.Faults{KeepsUnits: true}, `left, held\s+5, 0\s+0, 0\s+WRONG`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, out, err := play(t, c.faults)
			require.ErrorIs(t, err, demo.ErrWrong, out)
			require.Positive(t, table.Wrong())
			require.Regexp(t, c.want, out)
		})
	}
}

func TestAcceptedPurchaseFails(t *testing.T) {
	t.Parallel()
	_, out, err := play(t, shoptest.Faults{LosesOrders: 1})
	require.ErrorContains(t, err, "failed: system", out)
}
