package trouble

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// before is the commit of the release before this one.
//
//go:embed before
var before string

// buildBefore builds the services of the release before.
func buildBefore(t *testing.T) string {
	t.Helper()
	return rig.BuildCommit(t, strings.TrimSpace(before))
}

// The sale during the upgrade.
const (
	upgradeBurst     = 20               // buyers who arrive together, so that purchases share calls of the gate
	upgradePayWithin = 10 * time.Second // the orders of one step expire in later ones
	upgradeLasts     = 20 * time.Minute // bounds the sale, on a machine that is much too slow
	upgradeServes    = 3 * time.Second  // the arrivals of so long follow each step
)

// TestUpgrade upgrades an installation of the release before, by the procedure of docs/operations.md, while buyers
// purchase, pay and let their orders expire. Each service has two pods. `migrate up` of the new release runs beside pods
// of the release before. Then one pod of each service is replaced, and the other one. A seed decides the order of the
// services.
//
// After each step, purchases accepted after it must land, and orders that expired before it must be closed. No request
// fails; one whose connection a stopping pod cuts is repeated once. In the end every purchase is paid or closed, and
// gate, ledger and orders agree without a repair, an incident or a dead letter.
//
// UPGRADE_SEED (1) decides the order of the services and who pays, UPGRADE_RATE (40) is the number of purchases a second.
// At 200 two processors do not keep up with the buyers, who poll over new connections every second.
func TestUpgrade(t *testing.T) {
	seed, rate := number(t, "UPGRADE_SEED", 1), number(t, "UPGRADE_RATE", 40)
	rnd := rand.New(rand.NewPCG(uint64(seed), 0))
	programsBefore, programs := buildBefore(t), rig.Build(t)
	r := rig.New(t, rig.Programs(programsBefore), rig.Twice(), rig.Env("PATH_RATE", "100000"),
		rig.Env("TEST_TIMERS", "inventory.reconcile_every=1s")) // each mismatch is to be found
	r.WithoutFsync(t)
	r.Up(t)
	ctx, cancel := context.WithTimeout(t.Context(), upgradeLasts)
	defer cancel()
	calls := shop.NewRecorder(t)
	r.Client = calls.Client(t, r, rig.TokenSecret, 100)
	u := &upgrade{rig: r, calls: calls, buyers: &shop.Buyers{
		Client: r.Client, Count: rate * int(upgradeLasts/time.Second), PerSecond: rate, Together: upgradeBurst,
		Rand: rand.New(rand.NewPCG(uint64(seed), 1)),
	}}
	u.buyers.Sale = shop.Open(t, r,
		shop.Sale{Stock: int64(u.buyers.Count), PayWithinS: int64(upgradePayWithin / time.Second)})
	buying, stop := u.sell(ctx, t)
	step := func(name string, do func()) { u.step(buying, t, name, do) }

	step("release before", func() {})
	for _, p := range r.Processes() {
		p.Replace(programs)
	}
	step("migrate up", func() { r.Migrate(t) })
	for pod := range 2 {
		for _, service := range rnd.Perm(len(r.Services())) {
			p := r.Services()[service][pod]
			step("new "+p.Name, func() { p.Restart(t) })
		}
	}
	stop()

	u.served(t)
	u.buyers.Check(t, r)
	u.noRepairs(t)
	quiet(t, r)
}

// upgrade is a sale during an upgrade.
type upgrade struct {
	rig    *rig.Rig
	buyers *shop.Buyers
	calls  *shop.Recorder
	ended  func() error // waits until each purchase has ended
}

// sell starts the buyers. buying ends when one of them meets a defect. stop ends their arrival and waits until each
// purchase has ended.
func (u *upgrade) sell(ctx context.Context, t *testing.T) (buying context.Context, stop func()) {
	t.Helper()
	until := make(chan struct{})
	u.buyers.Until = until
	buying, u.ended = u.buyers.Start(ctx)
	watched := u.buyers.WatchStock(ctx)
	var spreading sync.WaitGroup
	spreading.Go(func() { // new connections go to all pods
		for shop.Until(buying, time.Now().Add(time.Second)) == nil {
			u.calls.CloseIdleConnections()
		}
	})
	return buying, func() {
		close(until)
		require.NoError(t, u.ended(), "error of a buyer")
		spreading.Wait()
		require.NoError(t, watched(), "error in the stock view")
	}
}

// step makes a step of the upgrade. Then it waits until purchases of upgradeServes have been accepted, these and all
// earlier ones have landed, and those that had expired before are closed.
func (u *upgrade) step(buying context.Context, t *testing.T, name string, do func()) {
	t.Helper()
	failed := len(u.calls.Failures())
	began := time.Now()
	do()
	done := time.Now()
	var last time.Time // of the purchases to wait for
	err := shop.Poll(buying, func() (bool, error) {
		if accepted := u.buyers.Accepted(done, time.Now()); last.IsZero() {
			if accepted < int(upgradeServes.Seconds()*float64(u.buyers.PerSecond)) {
				return false, fmt.Errorf("%d purchases accepted since then", accepted)
			}
			last = time.Now()
		}
		unlanded, overdue := u.buyers.Unlanded(last), u.buyers.Overdue(done)
		return unlanded+overdue == 0, fmt.Errorf("%d purchases are still queued, %d are not closed", unlanded, overdue)
	})
	if buying.Err() != nil {
		require.NoError(t, u.ended(), "%s: error of a buyer", name)
	}
	require.NoError(t, err, name)
	t.Logf("%-32s took %4.1f s, %5d purchases accepted meanwhile; checked after %4.1f s; %d failed requests", name,
		done.Sub(began).Seconds(), u.buyers.Accepted(began, done), time.Since(done).Seconds(), len(u.calls.Failures())-failed)
}

// served requires that every request was served. A short halt of the machine may cause a few 503, which are retried.
func (u *upgrade) served(t *testing.T) {
	t.Helper()
	assert.LessOrEqual(t, 100*u.refused(t), u.calls.Count(), "responses 503: at most one in a hundred")
}

// refused requires that no request failed but by a response 503, and returns the number of these.
func (u *upgrade) refused(t *testing.T) (refused int) {
	t.Helper()
	t.Log(u.calls)
	others := []string{}
	for _, failure := range u.calls.Failures() {
		if strings.HasSuffix(failure, ": 503 Service Unavailable") {
			refused++
		} else {
			others = append(others, failure)
		}
	}
	assert.Empty(t, others, "failed requests")
	return refused
}

// noRepairs requires that the reconciler has repaired nothing, and finds nothing to repair now.
func (u *upgrade) noRepairs(t *testing.T) {
	t.Helper()
	var repairs []string
	shop.Query(t, u.rig.Dependencies.InventoryDSN, "SELECT detail FROM changes WHERE action = 'activity.reconcile'",
		func(rows *sql.Rows) {
			var detail string
			require.NoError(t, rows.Scan(&detail))
			repairs = append(repairs, detail)
		})
	require.Empty(t, repairs, "reconciliations with repairs")
	ctx, cancel := context.WithTimeout(t.Context(), anyWithin)
	defer cancel()
	now, err := shop.Operator(t, u.rig).Reconcile(ctx, u.buyers.Sale.ActivityID)
	require.NoError(t, err)
	require.Empty(t, now.Repairs)
	require.Empty(t, now.Differences)
}
