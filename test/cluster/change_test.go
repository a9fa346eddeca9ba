package cluster

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/tools/client"
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
		v.mu.Lock()
		before := v.answers["503 with Retry-After"]
		v.mu.Unlock()
		drained := pods(t, "seckill")[0]
		kubectl(t, "delete", "pod", drained.Metadata.Name, "--wait=true")
		becomesReady(t, "seckill", 3, map[string]bool{drained.Metadata.UID: true})
		v.mu.Lock()
		t.Logf("while one of three pods of seckill was drained: %d answers 503 with Retry-After", v.answers["503 with Retry-After"]-before)
		v.mu.Unlock()
		scale("seckill", 1)
		scale("order", 1)
		scale("inventory", 1)
	})
	v.report(t)
	v.books(t)
	calm(t)
}

// The release is upgraded (new images, changed settings) and rolled back during a sale.
func TestUpgradeAndRollbackDuringASale(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	v := newVolley(&shoppers{sale: openSale(t, signer(t, client.Options{Attempts: 60}), 200_000)})
	v.during(ctx, t, rate(t), func() {
		began := time.Now()
		require.NoError(t, helm(ctx, "upgrade", release, chart, "--reuse-values", "--set", "image.tag="+nextTag,
			"--set", "components.seckill.env.PATH_RATE=1500", "--set", "edge.limits.connections=5000", "--wait", "--wait-for-jobs", "--timeout", "8m"))
		t.Logf("upgraded in %s", seconds(time.Since(began)))
		require.Contains(t, kubectl(t, "get", "deployment", release+"-seckill", "-o", "jsonpath={.spec.template.spec.containers[0].image}"), ":"+nextTag)
		began = time.Now()
		require.NoError(t, helm(ctx, "rollback", release, "--wait", "--wait-for-jobs", "--timeout", "8m"))
		t.Logf("rolled back in %s", seconds(time.Since(began)))
		require.NotContains(t, kubectl(t, "get", "deployment", release+"-seckill", "-o", "jsonpath={.spec.template.spec.containers[0].image}"), ":"+nextTag)
	})
	v.report(t)
	v.books(t)
	calm(t)
}
