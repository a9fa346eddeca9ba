package trouble

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// TestFlood calls the path route of one sale at 20 times its limit, while another sale is called at half of it. The
// other sale is served as without the flood. Both use all the processes of seckill and the limit of all paths.
func TestFlood(t *testing.T) {
	const (
		limit    = 50 // paths a second of each sale
		flooding = 20 * limit
		lasts    = 15 * time.Second // of each measurement
		slower   = time.Second      // p99 of the other sale in the flood, above that of the quiet run
	)
	r := rig.Start(t, rig.Twice(), rig.Env("PATH_RATE", strconv.Itoa(limit)))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	flooded := shop.Open(t, r, shop.Sale{Stock: 1_000_000, PayWithinS: 3600})
	other := shop.Open(t, r, shop.Sale{Stock: 1_000_000, PayWithinS: 3600})
	token, err := r.Client.Token(ctx, "operator-1", auth.Operator)
	require.NoError(t, err)
	operator := r.Client.As(token)
	ctl := shop.NewFlashctl(t, r)
	measure := func() load.Report {
		t.Helper()
		report, err := ctl.LoadPaths(ctx, other.ActivityID, "--rate", strconv.Itoa(limit/2), "--for", lasts.String(),
			"--users", "500", "--conns", "200", "--no-buy")
		require.NoError(t, err)
		return report
	}

	quiet := measure()

	type outcome struct {
		report load.Report
		err    error
	}
	ended := make(chan outcome, 1)
	flood, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		report, err := ctl.LoadPaths(flood, flooded.ActivityID, "--rate", strconv.Itoa(flooding),
			"--for", (3 * lasts).String(), "--users", "2000", "--conns", "2000", "--no-buy")
		ended <- outcome{report, err}
	}()
	require.NoError(t, shop.Poll(ctx, func() (bool, error) { // the flood has begun
		l, err := operator.Limit(ctx, "path-activity")
		return l.Refused > flooding, err
	}))
	during := measure()
	select {
	case o := <-ended:
		require.Fail(t, "the flood ended before the measurement", "%+v", o)
	default:
	}
	o := <-ended
	require.NoError(t, o.err)

	// of returns the path requests of a load, how many there were, and how many got no response.
	of := func(r load.Report) (paths *load.Step, calls, failed int) {
		paths = r.Step("path")
		for _, n := range paths.Outcomes {
			calls += n
		}
		return paths, calls, paths.Outcomes["no response"]
	}
	measured := func(name string, r load.Report) *load.Step {
		paths, calls, failed := of(r)
		served := float64(paths.Outcomes["201"]) / float64(calls)
		t.Logf("other sale, %s: %.2f %% of %d calls got a path, %s, %v", name, 100*served, calls, paths.Times, paths.Outcomes)
		assert.Zero(t, failed, name)
		assert.GreaterOrEqual(t, served, 0.99, name)
		return paths
	}
	paths, calls, failed := of(o.report)
	t.Logf("flood: %d calls in %s, %v, %d without a response", calls, o.report.Took.Round(time.Millisecond),
		paths.Outcomes, failed)
	assert.GreaterOrEqual(t, paths.Outcomes["429 rate_limited"], calls*8/10, "the flood is refused")
	assert.GreaterOrEqual(t, float64(calls), 0.7*flooding*o.report.Took.Seconds(), "the flood has its rate")
	before := measured("quiet", quiet)
	assert.Less(t, measured("flood", during).Times.P99, before.Times.P99+slower)
}
