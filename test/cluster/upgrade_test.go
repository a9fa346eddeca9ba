package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/cluster/installation"
)

// The release is upgraded during a sale (other images, changed settings, rules), then only its rules are changed.
// Changed rules reach the running pods, which are neither replaced nor restarted.
func TestUpgradeDuringASale(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	load := installation.NewLoad(t, 500_000)
	load.During(ctx, installation.Rate(t), func() {
		tag := installation.OtherTag(t)
		began := time.Now()
		installation.Upgrade(ctx, t, "--set", "image.tag="+tag, "--set", "components.seckill.env.PATH_RATE=1500",
			"--set", "edge.limits.connections=5000", "--set-file", "limits.rules="+installation.Rules(t, 90))
		t.Logf("upgraded in %s", installation.Seconds(time.Since(began)))
		require.Equal(t, tag, installation.Tag(t))
		installation.WaitForRules(ctx, t, load.Sale(), 90)

		restarts := map[string]int{}
		for _, p := range installation.Pods(t, "") {
			restarts[p.Metadata.UID] = p.Restarts()
		}
		began = time.Now()
		installation.Upgrade(ctx, t, "--set-file", "limits.rules="+installation.Rules(t, 80))
		installation.WaitForRules(ctx, t, load.Sale(), 80)
		t.Logf("all services apply the changed rules after %s", installation.Seconds(time.Since(began)))
		for _, component := range []string{"seckill", "order", "inventory"} {
			for _, p := range installation.Pods(t, component) {
				before, known := restarts[p.Metadata.UID]
				require.True(t, known, "%s is new", p.Metadata.Name)
				require.Equal(t, before, p.Restarts(), p.Metadata.Name)
			}
		}
	})
	load.Verify(t)
}
