package cluster

import (
	"context"
	"testing"
	"time"

	"flashsale.internal/test/cluster/installation"
)

// Pods are added during a sale, and one of three pods of seckill is drained. Every response is a success, or 503 or
// 429 with Retry-After.
func TestScalingAndDrainingDuringASale(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	load := installation.NewLoad(t, 100_000)
	load.During(ctx, installation.Rate(t)/2, func() {
		installation.Scale(t, "seckill", 3)
		installation.Scale(t, "order", 2)
		installation.Scale(t, "inventory", 2)
		before := load.Unavailable()
		drained := installation.Pods(t, "seckill")[0]
		installation.Kubectl(t, "delete", "pod", drained.Metadata.Name, "--wait=true")
		installation.WaitReady(t, "seckill", 3, map[string]bool{drained.Metadata.UID: true})
		t.Logf("responses 503 with Retry-After while one of three pods of seckill was drained: %d",
			load.Unavailable()-before)
		installation.Scale(t, "seckill", 1)
		installation.Scale(t, "order", 1)
		installation.Scale(t, "inventory", 1)
	})
	load.Verify(t)
}
