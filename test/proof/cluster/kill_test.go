package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/test/cluster/installation"
)

// Each component is killed without notice, one after the other, during a sale of 5,000 units to 6,000 buyers that
// lasts as long as the kills. No accepted purchase is lost or duplicated, and every unit is sold once.
func TestKillsOfEveryComponentDuringASale(t *testing.T) {
	const units, buyers = 5000, 6000
	c := installation.Client(t, client.Options{Attempts: 200, Timeout: 10 * time.Second, Connections: 512})
	b := installation.NewBuyers(installation.OpenSale(t, c, units))
	ctx, cancel := context.WithTimeout(context.Background(), 35*time.Minute)
	defer cancel()
	components := []string{"seckill", "inventory", "order", "edge", "redis", "broker", "namesrv", "mysql", "jaeger"}
	// Twenty buyers a second arrive, up to this number for each kill, and then one a second: however long the kills
	// take, units are left for the next one. The rest arrives after the last kill.
	const share = 400
	var kills atomic.Int64
	all := make(chan struct{})
	go func() {
		defer close(all)
		b.Arrive(ctx, buyers, func(n int) float64 {
			switch k := int(kills.Load()); {
			case k == len(components):
				return 60
			case n < share*(k+1):
				return 20
			}
			return 1
		})
	}()
	defer func() { <-all }()
	defer cancel()

	type killed struct {
		component string
		at, ready time.Time
	}
	var done []killed
	for _, component := range components {
		former := map[string]bool{}
		names := []string{}
		for _, p := range installation.Pods(t, component) {
			former[p.Metadata.UID] = true
			// A pod that an earlier test has scaled down may still be draining; nothing replaces it.
			if p.Metadata.DeletionTimestamp == "" {
				names = append(names, p.Metadata.Name)
			}
		}
		require.NotEmpty(t, names, "no pod of %s", component)
		sells := func(when string) {
			now := time.Now()
			what := "an order " + when + " the kill of " + component
			installation.Eventually(t, 5*time.Minute, 100*time.Millisecond, what,
				func() bool { return b.OrderedSince(now) })
		}
		sells("before")
		at := time.Now()
		kill := []string{"delete", "pod", "--grace-period=0", "--force", "--wait=false"}
		installation.Kubectl(t, append(kill, names...)...)
		installation.WaitReady(t, component, len(names), former)
		done = append(done, killed{component, at, time.Now()})
		sells("after")
		kills.Add(1)
	}
	<-all
	var table strings.Builder
	fmt.Fprintf(&table, "%-10s %10s %8s %16s %16s\n",
		"killed", "pod ready", "buyers", "accepted within", "ordered within")
	for _, k := range done {
		accepted, ordered, n := b.Waits(k.at, k.ready)
		fmt.Fprintf(&table, "%-10s %10s %8d %16s %16s\n", k.component, installation.Seconds(k.ready.Sub(k.at)),
			n, installation.Seconds(accepted), installation.Seconds(ordered))
	}
	t.Logf("time until the pod was ready again, and the longest waits of the buyers who began in that time:\n%s",
		table.String())
	b.Compare(t)
	require.Equal(t, units, b.Bought(), "more buyers than units and no expiry: every unit is sold")
	installation.NoOOMKills(t)
}
