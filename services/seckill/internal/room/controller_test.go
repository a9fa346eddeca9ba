package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"flashsale.internal/services/seckill/internal/core"
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

// lines collects the messages of a log.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	list []string
}

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.Level.String()+" "+r.Message)
	return nil
}

func recorded(t *testing.T) (*telemetry.Telemetry, *lines) {
	t.Helper()
	tel, l := telemetry.Discard(t), &lines{Handler: slog.NewTextHandler(io.Discard, nil)}
	tel.Log = slog.New(l)
	return tel, l
}

// A room that admits no place for 5 s though its sale is open is an incident, once. What it waits for is logged each
// minute, whatever it is; what is no fault is not.
func TestARoomThatAdmitsNoBuyerIsAnIncident(t *testing.T) {
	tel, log := recorded(t)
	now := noon
	c, err := New(Deps{Now: func() time.Time { return now }}, tel)
	require.NoError(t, err)
	open := Room{Now: noon, StartsAt: noon.Add(-time.Minute), State: core.StateOpen}
	soon := Room{Now: noon, StartsAt: noon.Add(30 * time.Second), State: core.StateOpen}
	for name, try := range map[string]struct {
		room Room
		err  error
		want []string // of 90 s
	}{
		"no draw":     {open, ErrNotReady, []string{"ERROR a waiting room admits no buyer", "WARN a waiting room does not move on"}},
		"broken":      {open, errors.New("broken"), []string{"ERROR a waiting room admits no buyer", "WARN a waiting room does not move on"}},
		"unreachable": {open, core.ErrUnavailable, []string{"WARN a waiting room does not move on", "WARN a waiting room does not move on"}},
		"before the start": {soon, errors.New("broken"), []string{
			"WARN a waiting room does not move on", "ERROR a waiting room admits no buyer",
		}},
		"not open": {soon, ErrNotOpen, nil},
		"ended":    {open, ErrEnded, nil},
	} {
		t.Run(name, func(t *testing.T) {
			now, log.list = noon, nil
			p := &progress{room: try.room, read: true, readAt: now}
			for range 450 {
				c.watch(t.Context(), "7", p, try.err)
				now = now.Add(tickInterval)
			}
			require.Equal(t, try.want, log.list)
			c.watch(t.Context(), "7", p, nil)
			log.list = nil
			for range 20 {
				c.watch(t.Context(), "7", p, try.err)
				now = now.Add(tickInterval)
			}
			require.Empty(t, log.list, "it has moved on meanwhile")
		})
	}
}

// A pod notices that the draw which it has read is not the published one any more.
func TestTwoPublishedDrawsAreAnIncident(t *testing.T) {
	tel, log := recorded(t)
	first, second := draw.NewHash(), draw.NewHash()
	store := &rooms{room: Room{Now: noon, Key: draw.NewHash(), Root: &first}}
	now := noon
	cache, err := NewCache(store, noPace, tel, func() time.Time { return now })
	require.NoError(t, err)
	for n := range 5 {
		_, _, err = cache.get(t.Context(), "7")
		require.NoError(t, err)
		now = now.Add(2 * maxAge)
		if n == 1 {
			require.Empty(t, log.list)
			store.change(func(r *Room) { r.Root = &second })
		}
	}
	require.Equal(t, []string{"ERROR two draws of a waiting room were published"}, log.list)
}
