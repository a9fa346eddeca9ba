package priority

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seven = "7"

// backlogs is a fake of the gates.
type backlogs struct {
	mu    sync.Mutex
	of    map[string]Backlog
	err   error
	calls int
}

func (b *backlogs) Backlog(_ context.Context, activityID string) (Backlog, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	return b.of[activityID], b.err
}

// set changes the backlog of a gate.
func (b *backlogs) set(activityID string, change func(*Backlog)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.of[activityID]
	change(&v)
	b.of[activityID] = v
}

// count returns the number of calls so far.
func (b *backlogs) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// run runs a test with a controller in simulated time.
func run(t *testing.T, test func(t *testing.T, c *Controller, b *backlogs)) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlogs{of: map[string]Backlog{}}
		c, err := New(b, telemetry.Discard(t), 500_000)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		test(t, c, b)
		cancel()
		running.Wait()
	})
}

// buy accepts 1,000 purchases a second for that time, each of which waits that long.
func buy(c *Controller, within, wait time.Duration) {
	for range within / (10 * time.Millisecond) {
		time.Sleep(10 * time.Millisecond)
		c.Waited(10, wait)
		c.Accepted(10)
	}
}

func TestRelayYieldsOnlyWhileBuyersWait(t *testing.T) {
	run(t, func(t *testing.T, c *Controller, _ *backlogs) {
		buy(c, 2*time.Second, 100*time.Microsecond)
		require.Zero(t, c.YieldToBuyers(seven, 256, 0), "no buyer waits")
		require.EqualValues(t, 0, c.first())

		buy(c, 5*time.Second, 10*time.Millisecond)
		require.EqualValues(t, 1, c.first())
		const message = 20
		pause := c.YieldToBuyers(seven, message, 0)
		require.InDelta(t, message/(yieldShare*1000), pause.Seconds(), 0.02)
		require.LessOrEqual(t, c.YieldToBuyers(seven, 100_000, 0), maxYield, "landing never stops")

		time.Sleep(calmAfter)
		require.Zero(t, c.YieldToBuyers(seven, 256, 0), "no buyer is left")
		require.EqualValues(t, 0, c.first())
	})
}

// With a large backlog the relay does not yield, and purchases are accepted at the landing rate. Afterwards both are as
// before.
func TestLandingGoesFirstUntilItHasCaughtUp(t *testing.T) {
	run(t, func(t *testing.T, c *Controller, b *backlogs) {
		b.set(seven, func(v *Backlog) { *v = Backlog{JournalLen: 400_000, UnlandedLen: 400_000, Purchases: 400_000} })
		require.Zero(t, c.YieldToBuyers(seven, 256, 0))
		time.Sleep(measureInterval / 2) // so that the gate changes between two measurements
		for range 12 {                  // 500 land a second, and 1,000 are accepted
			buy(c, measureInterval, 10*time.Millisecond)
			b.set(seven, func(v *Backlog) { v.UnlandedLen, v.Purchases = v.UnlandedLen+250, v.Purchases+500 })
		}
		require.EqualValues(t, 2, c.first())
		require.Zero(t, c.YieldToBuyers(seven, 256, 0))
		time.Sleep(maxPause) // until the pace allows more
		c.Accepted(100)
		require.InDelta(t, 100/(acceptedOfLanded*500), c.AcceptDelay().Seconds(), 0.1)
		c.Accepted(1_000_000)
		require.LessOrEqual(t, c.AcceptDelay(), maxPause)

		b.set(seven, func(v *Backlog) { v.JournalLen, v.UnlandedLen = 0, 0 })
		time.Sleep(2 * measureInterval)
		require.Zero(t, c.AcceptDelay())
		require.EqualValues(t, 0, c.first())
	})
}

// While landing goes first, no more is published than lands in about a second.
func TestRelayDoesNotPublishFarAheadOfLanding(t *testing.T) {
	run(t, func(t *testing.T, c *Controller, b *backlogs) {
		b.set(seven, func(v *Backlog) { *v = Backlog{JournalLen: 400_000, UnlandedLen: 401_000, Purchases: 401_000} })
		c.YieldToBuyers(seven, 0, 0)
		buy(c, 3*measureInterval, 10*time.Millisecond)
		require.EqualValues(t, 2, c.first())
		published := 1000 // those that the journal does not hold any more
		for c.YieldToBuyers(seven, 256, 0) == 0 {
			published += 256
		}
		require.InDelta(t, minInFlight, published, 256)
		b.set(seven, func(v *Backlog) { v.JournalLen, v.UnlandedLen = v.JournalLen-4000, v.UnlandedLen-4000 })
		time.Sleep(2 * measureInterval)
		require.Zero(t, c.YieldToBuyers(seven, 256, 0), "they have landed")
		time.Sleep(2 * measureInterval)
		b.mu.Lock()
		b.err = errors.New("redis does not respond")
		b.mu.Unlock()
		c.YieldToBuyers(seven, 100_000, 0)
		time.Sleep(paceMaxAge + time.Second)
		require.Zero(t, c.YieldToBuyers(seven, 256, 0), "it is not known how much has landed")
	})
}

func TestBacklogIsMeasuredOnlyWhileItMoves(t *testing.T) {
	run(t, func(t *testing.T, c *Controller, b *backlogs) {
		time.Sleep(time.Minute)
		buy(c, time.Second, 0)
		require.Zero(t, b.count(), "no full message")
		b.set(seven, func(v *Backlog) { v.UnlandedLen, v.Purchases = 10, 10 }) // these never land
		for range 2 {
			before := b.count()
			c.YieldToBuyers(seven, 256, 0)
			for range 20 {
				time.Sleep(measureInterval)
				b.set(seven, func(v *Backlog) { v.Purchases++ })
			}
			require.GreaterOrEqual(t, b.count()-before, 20)
			time.Sleep((quietMeasurements + 5) * measureInterval)
			before = b.count()
			time.Sleep(time.Minute)
			require.Equal(t, before, b.count())
		}
	})
}

// While the backlog cannot be read, no purchase is slowed down.
func TestUnknownBacklogSlowsNothingDown(t *testing.T) {
	run(t, func(t *testing.T, c *Controller, b *backlogs) {
		b.set(seven, func(v *Backlog) { *v = Backlog{JournalLen: 400_000, UnlandedLen: 400_000, Purchases: 400_000} })
		c.YieldToBuyers(seven, 256, 0)
		for range 4 {
			time.Sleep(time.Second)
			b.set(seven, func(v *Backlog) { v.UnlandedLen -= 500 })
		}
		c.Accepted(1000)
		require.NotZero(t, c.AcceptDelay())
		b.mu.Lock()
		b.err = errors.New("redis does not respond")
		b.mu.Unlock()
		time.Sleep(2 * measureInterval)
		c.Accepted(1000)
		require.Zero(t, c.AcceptDelay())
		require.EqualValues(t, 0, c.first())
	})
}

// A gate that was built again has other counters. Their difference is neither accepted nor landed.
func TestRebuiltGateIsNotCounted(t *testing.T) {
	w := &watched{}
	var m measurement
	w.add(&m, Backlog{Purchases: 10, Build: "a"}, true, 100)
	w.add(&m, Backlog{Purchases: 30, UnlandedLen: 5, Build: "a"}, true, 100)
	require.Equal(t, measurement{accepted: 20, landed: 15, unlanded: 5}, m)
	m = measurement{}
	w.add(&m, Backlog{Purchases: 1000, JournalLen: 50, Build: "b"}, true, 100)
	require.Equal(t, measurement{journaled: 50, full: 0.5}, m)
	w.add(&m, Backlog{}, false, 100)
	w.add(&m, Backlog{Purchases: 2000, Build: "b"}, true, 100)
	require.Zero(t, m.accepted, "after a failed call the difference is of an unknown time")
}
