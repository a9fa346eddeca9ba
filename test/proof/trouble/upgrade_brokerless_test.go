package trouble

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// withoutDirect is the last commit whose services send messages by the broker only.
const withoutDirect = "4fc9d3a3b450fef0e3122ea6143e99d27f1b76bf"

// TestUpgradeWithoutTheBroker kills the broker in the middle of an upgrade, while one pod of each service sends messages
// directly and the other one cannot, and continues the upgrade. As soon as all pods are new, purchases land, and orders
// are paid and closed, without the broker. It returns, and nothing was lost or done twice.
func TestUpgradeWithoutTheBroker(t *testing.T) {
	const rate = 20
	programsBefore, programs := rig.BuildCommit(t, withoutDirect), rig.Build(t)
	dependencies := rig.OwnDependencies(t, 5500)
	r := rig.New(t, dependencies.Option(), rig.Programs(programsBefore), rig.Twice(), rig.Env("PATH_RATE", "100000"))
	dependencies.Do(t, "up")
	dependencies.Prepare(t, r)
	r.WithoutFsync(t)
	r.Up(t)
	ctx, cancel := context.WithTimeout(t.Context(), upgradeLasts)
	defer cancel()
	calls := shop.NewRecorder(t)
	r.Client = calls.Client(t, r, rig.TokenSecret, 100)
	u := &upgrade{rig: r, calls: calls, buyers: &shop.Buyers{
		Client: r.Client, Count: rate * int(upgradeLasts/time.Second), PerSecond: rate,
		Rand: rand.New(rand.NewPCG(1, 1)),
	}}
	u.buyers.Sale = shop.Open(t, r,
		shop.Sale{Stock: int64(u.buyers.Count), PayWithinS: int64(upgradePayWithin / time.Second)})
	buying, stop := u.sell(ctx, t)
	replace := func(pod int) {
		for _, pods := range r.Services() {
			pods[pod].Restart(t)
		}
	}
	u.step(buying, t, "without direct messages", func() {})
	for _, p := range r.Processes() {
		p.Replace(programs)
	}
	u.step(buying, t, "one new pod of each service", func() { replace(0) })
	dependencies.Do(t, "kill", "broker")
	require.NoError(t, shop.Until(buying, time.Now().Add(20*time.Second))) // the new pods send directly after 10 s
	u.step(buying, t, "all pods are new, no broker", func() { replace(1) })
	u.step(buying, t, "broker", func() { dependencies.Do(t, "up", "broker") })
	stop()

	u.served(t)
	u.buyers.Check(t, r)
	shop.NoDeadLetters(t, r)
}
