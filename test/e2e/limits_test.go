package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	flashload "flashsale.internal/flashctl/client/load"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// limitRules writes a file of rules for the services.
func limitRules(t *testing.T, rules string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "rules.yaml")
	writeRules(t, file, rules)
	return file
}

// writeRules replaces the file in one step, as an editor or Kubernetes does.
func writeRules(t *testing.T, file, rules string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", []byte("version: 1\nrules:\n"+rules), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

// limitedSale opens a sale in which a user may buy often.
func limitedSale(ctx context.Context, t *testing.T, r *rig.Rig) (activityID string) {
	t.Helper()
	token, err := r.Client.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	m := r.Client.As(token)
	sku, err := m.NewProduct(ctx, client.Product{Name: "Phone", ListPrice: 100, Currency: "EUR"})
	require.NoError(t, err)
	now := time.Now()
	id, err := m.NewActivity(ctx, client.Draft{
		Title: "Limits", StartsAt: now, EndsAt: now.Add(time.Hour), PerUserLimit: 1000, PayWithinS: 3600,
		Items: []client.Item{{SKUID: sku, Price: 100, Stock: 1_000_000}},
	})
	require.NoError(t, err)
	require.NoError(t, m.Change(ctx, id, "publish"))
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		sale, err := m.Activity(ctx, id)
		return err == nil && sale.State == "open", err
	}))
	return id
}

// policyOf requests a path from a process and returns the limit of all paths from its RateLimit-Policy, per second.
func policyOf(ctx context.Context, p *rig.Process, activityID, token string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/v1/activities/"+activityID+"/paths", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	found := policyPattern.FindStringSubmatch(strings.Join(res.Header.Values("RateLimit-Policy"), ", "))
	if found == nil {
		return 0, fmt.Errorf("status %d, RateLimit-Policy %q", res.StatusCode, res.Header.Values("RateLimit-Policy"))
	}
	return strconv.Atoi(found[1])
}

var policyPattern = regexp.MustCompile(`"path-total";q=(\d+);w=1`)

// metricOf returns a counter of a process's metrics page, or 0 if it is absent.
func metricOf(ctx context.Context, p *rig.Process, line string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	for l := range strings.SplitSeq(string(page), "\n") {
		if rest, ok := strings.CutPrefix(l, line+" "); ok {
			return strconv.ParseFloat(rest, 64)
		}
	}
	return 0, nil
}

// decidedWithoutRedis returns how many requests the processes of seckill have decided by themselves because Redis was
// too slow. They grant what they would share then, on top of what Redis grants meanwhile.
func decidedWithoutRedis(ctx context.Context, t *testing.T, r *rig.Rig) (all float64) {
	t.Helper()
	for _, p := range r.Services()[0] {
		n, err := metricOf(ctx, p, `flashsale_limits_decided_total{flashsale_source="fallback"}`)
		require.NoError(t, err)
		all += n
	}
	return all
}

var refusedRules = regexp.MustCompile(`rules rejected.*field lmit not found`)

// TestPathLimitUnderLoad sends five times as many calls as there are paths to two processes of seckill that share the
// limit.
func TestPathLimitUnderLoad(t *testing.T) {
	const (
		rate, burst, seconds = 300, 30, 6
		leases               = 2 * 3 // leases of both processes
	)
	r := rig.Start(t, rig.Twice(), rig.Env("LIMIT_RULES", limitRules(t, fmt.Sprintf(
		"  - {name: path-total, limit: %d, burst: %d, max_wait: 1s, lease: 0.01}", rate, burst))))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	sale := limitedSale(ctx, t, r)
	ctl := shop.NewFlashctl(t, r)
	before := decidedWithoutRedis(ctx, t, r)
	report, err := ctl.LoadPaths(ctx, sale, "--rate", strconv.Itoa(5*rate), "--for", fmt.Sprintf("%ds", seconds),
		"--users", "500", "--conns", "1000")
	require.NoError(t, err)
	t.Logf("%+v", report)

	paths := report.Step("path").Outcomes
	given := paths["201"]
	for outcome := range paths { // an overloaded machine may refuse for a moment
		assert.True(t, outcome == "201" || outcome == "429 rate_limited" ||
			strings.HasPrefix(outcome, "503 "), outcome)
	}
	most := rate*report.Took.Seconds() + burst + leases +
		min(decidedWithoutRedis(ctx, t, r)-before, rate*report.Took.Seconds()/2+burst)
	assert.LessOrEqual(t, float64(given), most, "of %s", report.Took)
	assert.GreaterOrEqual(t, given, rate*seconds/2, "at least half of the limit, on a slow machine too")
	assert.Positive(t, paths["429 rate_limited"])
	for outcome, n := range report.Step("purchase").Outcomes { // a purchase ends the other paths that its user has meanwhile got
		assert.True(t, outcome == "202" || outcome == "403 path_expired" || strings.HasPrefix(outcome, "503 "),
			"%d times %s", n, outcome)
	}

	// The operator sees the sum of both processes.
	token, err := r.Client.Token(ctx, "operator-1", auth.Operator)
	require.NoError(t, err)
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		l, err := r.Client.As(token).Limit(ctx, "path-total")
		return l.Source == "file" && l.Allowed+l.Waited >= int64(given) &&
			l.Refused >= int64(paths["429 rate_limited"]), err
	}))
	for _, p := range r.Services()[0] {
		n, err := metricOf(ctx, p,
			`flashsale_limits_decisions_total{flashsale_limit="path-total",flashsale_outcome="refused"}`)
		require.NoError(t, err)
		assert.Positive(t, n, p.Name)
	}
}

// TestLimitsChangeUnderLoad changes a limit while it is in use. The new limit applies on all processes at once, and no
// caller gets more than both limits allow. A file with errors changes nothing, and the reason is logged.
func TestLimitsChangeUnderLoad(t *testing.T) {
	const before, after, burst = 200, 400, 20
	rule := func(limit int) string {
		return fmt.Sprintf("  - {name: path-total, limit: %d, burst: %d, lease: 0.01}", limit, burst)
	}
	file := limitRules(t, rule(before))
	r := rig.Start(t, rig.Twice(), rig.Env("LIMIT_RULES", file))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	sale := limitedSale(ctx, t, r)
	ctl := shop.NewFlashctl(t, r)
	token, err := r.Client.Token(ctx, "watcher")
	require.NoError(t, err)
	// everywhere waits until all processes of seckill return that limit, and returns the time that it took.
	everywhere := func(limit int) time.Duration {
		t.Helper()
		began := time.Now()
		for _, p := range r.Services()[0] {
			require.NoError(t, shop.Poll(ctx, func() (bool, error) {
				n, err := policyOf(ctx, p, sale, token)
				return n == limit, err
			}), "%s applies %d", p.Name, limit)
		}
		return time.Since(began)
	}
	everywhere(before)
	alone := decidedWithoutRedis(ctx, t, r)

	type outcome struct {
		report flashload.Report
		err    error
	}
	loaded := make(chan outcome, 1)
	began := time.Now()
	go func() {
		report, err := ctl.LoadPaths(ctx, sale, "--rate", strconv.Itoa(3*after), "--for", "8s", "--users", "200",
			"--conns", "200", "--no-buy")
		loaded <- outcome{report, err}
	}()
	require.NoError(t, shop.Poll(ctx, func() (bool, error) { // the load runs
		n, err := metricOf(ctx, r.Seckill,
			`flashsale_limits_decisions_total{flashsale_limit="path-total",flashsale_outcome="refused"}`)
		return n > 100, err
	}))
	changing := time.Now()
	out, err := ctl.Run(ctx, "limits", "set", "path-total", "limit="+strconv.Itoa(after))
	require.NoError(t, err)
	require.Contains(t, string(out), "version 1")
	took := everywhere(after)
	seen := time.Since(changing)
	done := <-loaded
	require.NoError(t, done.err)
	most := before*changing.Sub(began).Seconds() + after*time.Since(changing).Seconds() + 2*burst + 2*4
	alone = min(decidedWithoutRedis(ctx, t, r)-alone, after*done.report.Took.Seconds()/2+burst)
	t.Logf("all processes applied the limit %s after flashctl ended, %s after it was started; %+v; at most %.0f, %.0f"+
		" more without Redis", took, seen, done.report, most, alone)
	given := done.report.Step("path").Outcomes["201"]
	assert.LessOrEqual(t, float64(given), most+alone, "no burst beyond those of the two limits")
	assert.GreaterOrEqual(t, given, before*8/2)

	// The change log names the actor.
	db, err := sql.Open("mysql", r.Dependencies.InventoryDSN)
	require.NoError(t, err)
	defer db.Close()
	var who, detail string
	require.NoError(t, db.QueryRowContext(ctx,
		"SELECT who, detail FROM changes WHERE action = 'limit.put'").Scan(&who, &detail))
	assert.Equal(t, "flashctl", who)
	assert.Contains(t, detail, `"limit":400`)

	// A file with errors: the old rules stay, and each process logs the reason.
	writeRules(t, file, strings.Replace(rule(50), "limit:", "lmit:", 1))
	for _, p := range r.Processes() {
		require.NoError(t, shop.Poll(ctx, func() (bool, error) {
			n, err := metricOf(ctx, p,
				`flashsale_limits_reloads_total{flashsale_outcome="refused",flashsale_source="file"}`)
			return n > 0 && refusedRules.MatchString(p.Log(t)), err // it is counted, and then logged
		}), p.Name)
	}
	everywhere(after)

	// A rule in Redis overrides the file until it is reverted.
	writeRules(t, file, rule(50))
	for _, p := range r.Services()[0] {
		require.NoError(t, shop.Poll(ctx, func() (bool, error) {
			n, err := metricOf(ctx, p,
				`flashsale_limits_reloads_total{flashsale_outcome="taken over",flashsale_source="file"}`)
			return n >= 1, err
		}), p.Name)
	}
	everywhere(after)
	_, err = ctl.Run(ctx, "limits", "revert", "path-total")
	require.NoError(t, err)
	everywhere(50)
	_, err = ctl.Run(ctx, "limits", "set", "path-total", "limit=-1")
	require.ErrorContains(t, err, "below 0")
	_, err = ctl.Run(ctx, "limits", "set", "no-route-has-it", "limit=1")
	require.ErrorContains(t, err, "no such limit")
}
