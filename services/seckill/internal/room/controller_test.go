package room

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/gate"
	"flashsale.internal/services/seckill/internal/grouping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a gate with a waiting room on miniredis.
type world struct {
	t          *testing.T
	gates      *stockgate.Gate
	rooms      *RedisStore
	tel        *telemetry.Telemetry
	locks      *lock.Locker
	activityID string
	cfg        stockgate.Config
}

func newWorld(t *testing.T, rate int64) *world {
	t.Helper()
	rdb := stockgate.Connect([]string{miniredis.RunT(t).Addr()}, 0)
	t.Cleanup(func() { _ = rdb.Close() })
	tel := telemetry.Discard(t)
	w := &world{
		t: t, gates: stockgate.New(rdb, stockgate.Options{}), tel: tel, locks: lock.New(rdb, tel.Log),
		activityID: "7",
	}
	w.rooms = NewRedisStore(w.gates, grouping.Bounds{CallTimeout: 10 * time.Second, CallerWait: 20 * time.Second, Queue: 1000})
	now := time.Now()
	w.cfg = stockgate.Config{
		State: stockgate.GateOpen, StartsAt: now.Add(5 * time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1,
		RoomRate: rate, Version: 1,
	}
	stock := map[string]int64{"1": 10}
	require.NoError(t, w.gates.Preload(t.Context(), w.activityID, stockgate.Snapshot{Config: w.cfg, Stock: stock, Totals: stock}))
	return w
}

// startsIn moves the start of the sale.
func (w *world) startsIn(d time.Duration) {
	w.t.Helper()
	w.cfg.StartsAt = time.Now().Add(d)
	w.cfg.Version++
	require.NoError(w.t, w.gates.Configure(w.t.Context(), w.activityID, w.cfg))
}

// join takes n tickets and returns their commitments.
func (w *world) join(from, n int) (commitments []draw.Hash) {
	w.t.Helper()
	key := draw.NewHash()
	for i := range n {
		user, nonce := fmt.Sprint("u", from+i), draw.NewNonce()
		c := draw.Commit("7", user, nonce)
		_, err := w.rooms.Join(w.t.Context(), "7", Join{UserID: user, Key: key, Nonce: nonce, Commitment: c})
		require.NoError(w.t, err)
		commitments = append(commitments, c)
	}
	return commitments
}

func (w *world) room() Room {
	w.t.Helper()
	r, err := w.rooms.Room(w.t.Context(), "7", Room{Key: draw.NewHash()})
	require.NoError(w.t, err)
	return r
}

// start runs a controller until the returned function is called.
func (w *world) start(beacon ...Beacon) (c *Controller, stop func()) {
	w.t.Helper()
	d := Deps{
		Rooms: w.rooms, Locks: w.locks, Now: time.Now,
		List: func(ctx context.Context) ([]string, error) {
			return gate.Catalogue{Redis: w.gates}.Rooms(ctx, time.Now())
		},
	}
	if len(beacon) > 0 {
		d.Beacon = beacon[0]
	}
	c, err := New(d, w.tel)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(w.t, <-ended)
	})
	w.t.Cleanup(stop)
	return c, stop
}

func (w *world) eventually(what string, done func(r Room) bool) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return done(w.room()) }, 30*time.Second, 10*time.Millisecond, what)
}

func TestControllerStoresTheDraw(t *testing.T) {
	w := newWorld(t, 1000)
	early := w.join(0, 20)
	w.start()
	require.Nil(t, w.room().Root)
	w.startsIn(50 * time.Second)
	w.eventually("seed", func(r Room) bool { return r.Seed != nil })
	tree, err := draw.NewTree(early)
	require.NoError(t, err)
	root, err := tree.Root()
	require.NoError(t, err)
	r := w.room()
	require.Equal(t, root, *r.Root)
	require.Equal(t, draw.Seed(r.Key, root, nil), *r.Seed)
	w.join(20, 5)
	require.Zero(t, w.room().Admitted)
	w.startsIn(-time.Second)
	w.eventually("admitted", func(r Room) bool { return r.Admitted == 25 })
	require.EqualValues(t, 20, w.room().Early)
}

// Another process continues where the controller ended, and places are admitted at the rate.
func TestAnotherControllerContinues(t *testing.T) {
	const rate, count, more = 200, 400, 100
	w := newWorld(t, rate)
	w.join(0, count)
	_, stop := w.start()
	w.startsIn(-time.Second)
	w.eventually("the first controller admits", func(r Room) bool { return r.Admitted > 0 })
	began, from := time.Now(), w.room().Admitted
	w.eventually("the first controller admits more", func(r Room) bool { return r.Admitted > count/4 })
	stop()
	stopped := w.room().Admitted
	elapsed := time.Since(began).Seconds()
	require.LessOrEqual(t, float64(stopped-from), rate*(elapsed+1), "not above the rate")
	w.join(count, more) // also on a machine that is so slow that all others are admitted

	highest := stopped
	w.start()
	w.eventually("the second controller admits the rest", func(r Room) bool {
		require.GreaterOrEqual(t, r.Admitted, highest)
		highest = r.Admitted
		return r.Admitted == count+more
	})
}

func TestPausedSaleAdmitsNoPlace(t *testing.T) {
	w := newWorld(t, 1000)
	w.join(0, 10)
	w.cfg.State = stockgate.GatePaused
	w.startsIn(-time.Second)
	w.start()
	w.eventually("root", func(r Room) bool { return r.Root != nil })
	time.Sleep(3 * tickInterval) // nothing else shows that nothing happens
	require.Zero(t, w.room().Admitted)
	w.cfg.State = stockgate.GateOpen
	w.startsIn(-time.Second)
	w.eventually("admitted", func(r Room) bool { return r.Admitted == 10 })
}
