package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
)

// rate is how many purchases a second the tests of changes make.
func rate(t *testing.T) float64 {
	t.Helper()
	text := os.Getenv("RATE")
	if text == "" {
		return 200
	}
	r, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return r
}

// Pods are added during a sale, and one of three of the purchase path is drained: nobody is told anything but success, or 503
// with the time to come again.
func TestScalingAndDrainingDuringASale(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	v := newVolley(&shoppers{sale: openSale(t, signer(t, client.Options{Attempts: 60}), 100_000)})
	scale := func(component string, n int) {
		kubectl(t, "scale", "deployment/"+release+"-"+component, "--replicas="+strconv.Itoa(n))
		becomesReady(t, component, n, nil)
	}
	v.during(ctx, t, rate(t)/2, func() {
		scale("seckill", 3)
		scale("order", 2)
		scale("inventory", 2)
		before := v.told503()
		drained := pods(t, "seckill")[0]
		kubectl(t, "delete", "pod", drained.Metadata.Name, "--wait=true")
		becomesReady(t, "seckill", 3, map[string]bool{drained.Metadata.UID: true})
		t.Logf("while one of three pods of seckill was drained: %d answers 503 with Retry-After", v.told503()-before)
		scale("seckill", 1)
		scale("order", 1)
		scale("inventory", 1)
	})
	v.report(t)
	v.books(t)
	calm(t)
}

// The release is upgraded (new images, changed settings, rules of its own) during a sale, then its rules are changed, and then
// it is rolled back. Changed rules reach the pods that run; these are not replaced for them.
func TestUpgradeAndRollbackDuringASale(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	v := newVolley(&shoppers{sale: openSale(t, signer(t, client.Options{Attempts: 60}), 500_000)})
	upgrade := func(words ...string) {
		args := []string{"upgrade", release, chart, "--reuse-values", "--wait", "--wait-for-jobs", "--timeout", "8m"}
		require.NoError(t, helm(ctx, append(args, words...)...))
	}
	image := func() string {
		return kubectl(t, "get", "deployment", release+"-seckill", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	}
	v.during(ctx, t, rate(t), func() {
		began := time.Now()
		upgrade("--set", "image.tag="+nextTag, "--set", "components.seckill.env.PATH_RATE=1500", "--set", "edge.limits.connections=5000",
			"--set-file", "limits.rules="+rules(t, 90))
		t.Logf("upgraded in %s", seconds(time.Since(began)))
		require.Contains(t, image(), ":"+nextTag)
		hold(ctx, t, v.sale, 90)

		former := map[string]int{}
		for _, p := range pods(t, "") {
			former[p.Metadata.UID] = p.restarts()
		}
		began = time.Now()
		upgrade("--set-file", "limits.rules="+rules(t, 80))
		hold(ctx, t, v.sale, 80)
		t.Logf("changed rules held everywhere after %s", seconds(time.Since(began)))
		for _, component := range []string{"seckill", "order", "inventory"} {
			for _, p := range pods(t, component) {
				restarts, known := former[p.Metadata.UID]
				require.True(t, known, "%s is new", p.Metadata.Name)
				require.Equal(t, restarts, p.restarts(), p.Metadata.Name)
			}
		}

		began = time.Now()
		// To what it was before both.
		require.NoError(t, helm(ctx, "rollback", release, strconv.Itoa(revision(ctx, t)-2), "--wait", "--wait-for-jobs", "--timeout", "8m"))
		t.Logf("rolled back in %s", seconds(time.Since(began)))
		require.NotContains(t, image(), ":"+nextTag)
		hold(ctx, t, v.sale, 100)
	})
	v.report(t)
	v.books(t)
	calm(t)
}

// revision is the release's present one.
func revision(ctx context.Context, t *testing.T) int {
	t.Helper()
	out, err := output(ctx, helmPath, "history", release, "--namespace", namespace, "--max", "1", "-o", "json")
	require.NoError(t, err)
	var history []struct{ Revision int }
	require.NoError(t, json.Unmarshal(out, &history))
	require.Len(t, history, 1)
	return history[0].Revision
}

// rules writes a file of those that hold anyway in development, but for how many calls a second each user may make of a route.
func rules(t *testing.T, perUser int) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, "../../../pkg/admission/rules-development.yaml"))
	require.NoError(t, err)
	text := strings.ReplaceAll(string(raw), " limit: 100,", fmt.Sprintf(" limit: %d,", perUser))
	require.NotEqual(t, string(raw), text)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// hold waits until each service tells callers of that limit.
func hold(ctx context.Context, t *testing.T, s *sale, perUser int) {
	t.Helper()
	for url, rule := range map[string]string{
		"/v1/activities/" + s.id + "/reservations": "result-per-user",
		"/v1/orders":              "order-per-user",
		"/v1/merchant/activities": "merchant-per-user",
	} {
		want := fmt.Sprintf("%q;q=%d;w=1", rule, perUser)
		told := ""
		// A kubelet looks for changed ConfigMaps every minute or two.
		eventually(t, 5*time.Minute, time.Second, want, func() bool {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, edgeURL+url, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+s.merchant.Token())
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			if policy := resp.Header.Get("RateLimit-Policy"); policy != told {
				told = policy
				t.Logf("%s: %s", url, told)
			}
			return strings.Contains(told, want)
		})
	}
}
