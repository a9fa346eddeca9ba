package trouble

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	measure := func() shop.PathLoad {
		t.Helper()
		report, err := ctl.LoadPaths(ctx, other.ActivityID, "--rate", strconv.Itoa(limit/2), "--for", lasts.String(),
			"--users", "500", "--conns", "200", "--no-buy")
		require.NoError(t, err)
		return report
	}

	quiet := measure()

	type outcome struct {
		report shop.PathLoad
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

	served := func(l shop.PathLoad) float64 { return float64(l.Outcomes["201"]) / float64(l.Calls) }
	t.Logf("flood: %d calls in %s, %v, %d without a response", o.report.Calls, o.report.Took.Round(time.Millisecond),
		o.report.Outcomes, o.report.Failed)
	t.Logf("other sale, quiet: %.2f %% of %d calls got a path, p50 %s, p99 %s, %v", 100*served(quiet), quiet.Calls,
		quiet.Given.P50, quiet.Given.P99, quiet.Outcomes)
	t.Logf("other sale, flood: %.2f %% of %d calls got a path, p50 %s, p99 %s, %v", 100*served(during), during.Calls,
		during.Given.P50, during.Given.P99, during.Outcomes)
	assert.GreaterOrEqual(t, o.report.Outcomes["429 rate_limited"], o.report.Calls*8/10, "the flood is refused")
	assert.GreaterOrEqual(t, float64(o.report.Calls), 0.7*flooding*o.report.Took.Seconds(), "the flood has its rate")
	assert.Zero(t, quiet.Failed+during.Failed)
	assert.GreaterOrEqual(t, served(quiet), 0.99)
	assert.GreaterOrEqual(t, served(during), 0.99)
	assert.Less(t, during.Given.P99, quiet.Given.P99+slower)
}
