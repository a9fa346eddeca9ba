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
)

// One component after the other is killed without notice during a sale of 5,000 pieces for 6,000 buyers that lasts as long
// as the kills. Nothing that was accepted is lost or doubled, and every piece is sold once.
func TestKillsOfEveryComponentDuringASale(t *testing.T) {
	const pieces, buyers = 5000, 6000
	c := signer(t, client.Options{Attempts: 200, Timeout: 10 * time.Second, Connections: 512})
	s := &shoppers{sale: openSale(t, c, pieces)}
	ctx, cancel := context.WithTimeout(context.Background(), 35*time.Minute)
	defer cancel()
	components := []string{"seckill", "inventory", "order", "edge", "redis", "broker", "namesrv", "mysql", "jaeger"}
	// Twenty a second come, but no more than this part of the buyers for each kill, and then one a second: however long the
	// kills take, something is left to buy. When they are over the rest comes.
	const share = 400
	var kills atomic.Int64
	all := make(chan struct{})
	go func() {
		defer close(all)
		s.pace(ctx, buyers, func(n int) float64 {
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

	type kill struct {
		component     string
		killed, ready time.Time
	}
	var done []kill
	for _, component := range components {
		former := map[string]bool{}
		names := []string{}
		for _, p := range pods(t, component) {
			former[p.Metadata.UID] = true
			names = append(names, p.Metadata.Name)
		}
		if len(names) == 0 {
			t.Fatalf("there is no pod of %s", component)
		}
		sells := func(when string) {
			now := time.Now()
			eventually(t, 5*time.Minute, 100*time.Millisecond, "an order "+when+" the kill of "+component, func() bool { return s.orderedSince(now) })
		}
		sells("before")
		killed := time.Now()
		kubectl(t, append([]string{"delete", "pod", "--grace-period=0", "--force", "--wait=false"}, names...)...)
		becomesReady(t, component, len(names), former)
		done = append(done, kill{component, killed, time.Now()})
		sells("after")
		kills.Add(1)
	}
	<-all
	var table strings.Builder
	fmt.Fprintf(&table, "%-10s %10s %8s %16s %16s\n", "killed", "pod ready", "buyers", "accepted within", "ordered within")
	for _, k := range done {
		accepted, ordered, n := s.waits(k.killed, k.ready)
		fmt.Fprintf(&table, "%-10s %10s %8d %16s %16s\n", k.component, seconds(k.ready.Sub(k.killed)), n, seconds(accepted), seconds(ordered))
	}
	t.Logf("how long it took until the pod was ready again, and how long those waited at most who came meanwhile:\n%s", table.String())
	s.books(t)
	require.Len(t, s.bought, pieces, "every piece was wanted and nothing expired, so each is sold")
	calm(t)
}
