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

// TestUpgradeWithoutTheBroker kills the broker in the middle of an upgrade, while one pod of each service is new, and
// continues the upgrade. Purchases land, and orders are paid and closed, without the broker. It returns, and nothing was
// lost or done twice.
func TestUpgradeWithoutTheBroker(t *testing.T) {
	u := beginOutageUpgrade(t, 5500)
	u.step(u.buying, t, "one new pod of each service", func() { u.replace(t, 0) })
	u.dependencies.Do(t, "kill", "broker")
	require.NoError(t, shop.Until(u.buying, time.Now().Add(20*time.Second))) // pods are brokerless after 10 s
	u.step(u.buying, t, "all pods are new, no broker", func() { u.replace(t, 1) })
	u.step(u.buying, t, "broker", func() { u.dependencies.Do(t, "up", "broker") })
	u.stop()

	u.served(t)
	u.buyers.Check(t, u.rig)
	shop.NoDeadLetters(t, u.rig)
}

// outagePayWithin is longer than an outage, so that a buyer whose order waited for its end can pay.
const outagePayWithin = 45 * time.Second

// outageUpgrade is an upgrade of two pods of each service while a dependency fails.
type outageUpgrade struct {
	*upgrade
	dependencies *rig.DependencySet
	buying       context.Context // ends when a buyer meets a defect
	stop         func()          // ends the arrivals and waits until each purchase has ended
}

// beginOutageUpgrade starts pods of the release before, and a sale. The new release has migrated the tables, and each pod
// becomes a new one at its next start. The dependencies have ports of their own.
func beginOutageUpgrade(t *testing.T, offset int) *outageUpgrade {
	t.Helper()
	const rate = 20
	programsBefore, programs := buildBefore(t), rig.Build(t)
	o := &outageUpgrade{dependencies: rig.OwnDependencies(t, offset)}
	r := rig.New(t, o.dependencies.Option(), rig.Programs(programsBefore), rig.Twice(), rig.Env("PATH_RATE", "100000"))
	o.dependencies.Do(t, "up")
	o.dependencies.Prepare(t, r)
	r.WithoutFsync(t)
	r.Up(t)
	ctx, cancel := context.WithTimeout(t.Context(), upgradeLasts)
	t.Cleanup(cancel)
	calls := shop.NewRecorder(t)
	r.Client = calls.Client(t, r, rig.TokenSecret, 100)
	o.upgrade = &upgrade{rig: r, calls: calls, buyers: &shop.Buyers{
		Client: r.Client, Count: rate * int(upgradeLasts/time.Second), PerSecond: rate,
		Rand: rand.New(rand.NewPCG(1, 1)),
	}}
	o.buyers.Sale = shop.Open(t, r,
		shop.Sale{Stock: int64(o.buyers.Count), PayWithinS: int64(outagePayWithin / time.Second)})
	o.buying, o.stop = o.sell(ctx, t)
	o.step(o.buying, t, "release before", func() {})
	for _, p := range r.Processes() {
		p.Replace(programs)
	}
	o.step(o.buying, t, "migrate up", func() { r.Migrate(t) })
	return o
}

// replace restarts one pod of each service.
func (o *outageUpgrade) replace(t *testing.T, pod int) {
	t.Helper()
	for _, pods := range o.rig.Services() {
		pods[pod].Restart(t)
	}
}
