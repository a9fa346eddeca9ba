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

func play(t *testing.T, faults shoptest.Faults) (*demo.Report, string, error) {
	t.Helper()
	shop := shoptest.Start(t, faults)
	c := client.New(client.Single(shop.URL), client.Options{Connections: 32})
	t.Cleanup(c.Close)
	plan := demo.Plan{
		Sales:     [2]demo.Sale{{Merchant: "m1", Units: 10, Buyers: 60}, {Merchant: "m2", Units: 4, Buyers: 20}},
		PayWithin: 5 * time.Second, LateAtMost: 500 * time.Millisecond,
		SettleWithin: 5 * time.Second, Width: 16,
	}
	report, err := demo.Run(t.Context(), c, plan, io.Discard)
	var out bytes.Buffer
	require.NoError(t, report.Print(&out))
	return report, out.String(), err
}

func TestCorrectSalesHaveNoWrongRow(t *testing.T) {
	t.Parallel()
	report, out, err := play(t, shoptest.Faults{Refuses: 3})
	require.NoError(t, err, out)
	require.Zero(t, report.Wrong(), out)
	for _, row := range []string{
		`merchant m1\s+expected`, `accepted\s+10\s+10\s+ok`, `merchant m2\s+expected`, `accepted\s+4\s+4\s+ok`,
		`(?s)Everything is sold.*Everything is sold`, `merchant's list: contacts as given\s+10\s+10\s+ok`,
		`merchant's list: contacts as given\s+4\s+4\s+ok`, `m2 reads the orders of m1\s+not_found\s+not_found\s+ok`,
		`list of m1: its own sale\s+1\s+1\s+ok`, `list of m1: sale of m2\s+0\s+0\s+ok`,
	} {
		require.Regexp(t, row, out)
	}
}

func TestFaultsAreWrongRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults shoptest.Faults
		want   string
	}{
		"one unit too many":                 {shoptest.Faults{Oversell: 1}, `accepted\s+10\s+11\s+WRONG`},
		"closed too early":                  {shoptest.Faults{CloseEarly: 300 * time.Millisecond}, `closed before the deadline\s+never\s+300 ms early\s+WRONG`},
		"closed too late":                   {shoptest.Faults{CloseLate: 700 * time.Millisecond}, `closed after the deadline\s+at most 500ms\s+700 ms after it\s+WRONG`},
		"a merchant reads the other's sale": {shoptest.Faults{Leaks: true}, `m1 reads the stock of m2\s+not_found\s+found\s+WRONG`},
		"the other's sale is in the list":   {shoptest.Faults{Leaks: true}, `list of m2: sale of m1\s+0\s+1\s+WRONG`},
		"contact of another buyer":          {shoptest.Faults{MixesUp: true}, `contacts as given\s+10\s+0\s+WRONG`},
		"units are not released":            {shoptest.Faults{KeepsUnits: true}, `left, held\s+5, 0\s+0, 0\s+WRONG`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, out, err := play(t, c.faults)
			require.ErrorIs(t, err, demo.ErrWrong, out)
			require.Positive(t, report.Wrong())
			require.Regexp(t, c.want, out)
		})
	}
}

func TestAcceptedPurchaseFails(t *testing.T) {
	t.Parallel()
	_, out, err := play(t, shoptest.Faults{LosesOrders: 1})
	require.ErrorContains(t, err, "failed: system", out)
}
