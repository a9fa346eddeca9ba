package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/outbox"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

func migrations(t *testing.T) fstest.MapFS {
	_, rest, ok := strings.Cut(outbox.Schema, "-- mysql/")
	require.True(t, ok)
	mysql, sqlite, ok := strings.Cut(rest, "-- sqlite/")
	require.True(t, ok)
	return fstest.MapFS{
		"migrations/mysql/00001_outbox.sql":  {Data: []byte("-- +goose Up\n" + mysql)},
		"migrations/sqlite/00001_outbox.sql": {Data: []byte("-- +goose Up\n" + sqlite)},
	}
}

// broker records published messages, and refuses topics that are down.
type broker struct {
	mu       sync.Mutex
	messages []bus.Message
	calls    int
	down     map[string]bool // topics
	poison   []string        // a message that contains one of them is refused
	hold     chan struct{}   // non-nil: Publish waits for it or for the end of ctx
}

func (b *broker) Publish(ctx context.Context, m bus.Message) error {
	b.mu.Lock()
	hold, down := b.hold, b.down[m.Topic] || slices.ContainsFunc(b.poison, func(p string) bool {
		return strings.Contains(string(m.Body), p)
	})
	b.calls++
	b.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if down {
		return errors.New("no route")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, m)
	return nil
}

func (b *broker) setDown(topic string, down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down == nil {
		b.down = map[string]bool{}
	}
	b.down[topic] = down
}

// seen counts the publications of each order_sn in all messages.
func (b *broker) seen(t *testing.T) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	times := map[string]int{}
	for _, m := range b.messages {
		good, bad := contract.Decode[contract.OrderEvent](m.Body)
		require.Empty(t, bad)
		for _, e := range good {
			times[e.OrderSN]++
		}
	}
	return times
}

func event(n int) contract.OrderEvent {
	return contract.OrderEvent{
		OrderSN: fmt.Sprint(1000 + n), UserID: "u", ActivityID: "1", Lines: []contract.Line{{SKUID: "1", Qty: 1}},
		Type: contract.OrderPaid, At: time.Now().UTC(), Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func add(t *testing.T, db *gorm.DB, topic string, from, to int) {
	events := make([]contract.OrderEvent, 0, to-from)
	for n := from; n < to; n++ {
		events = append(events, event(n))
	}
	require.NoError(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error { return outbox.Append(tx, topic, events...) }))
}

func run(t *testing.T, r *outbox.Relay) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

func empty(t *testing.T, db *gorm.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, _, err := outbox.Backlog(context.Background(), db)
		return err == nil && n == 0
	}, 60*time.Second, 10*time.Millisecond)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRelayGroupsAndDeletes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{}
		add(t, db, "t1", 0, 300)
		add(t, db, "t2", 300, 301)
		due := time.Now().Add(time.Hour)
		raw, err := json.Marshal(event(301))
		require.NoError(t, err)
		require.NoError(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
			return outbox.Add(tx, outbox.Row{Topic: "t1", Item: raw, DeliverAt: due}, outbox.Row{Topic: "t1", Item: raw, OrderSN: "x", DeliverAt: due})
		}))
		n, oldest, err := outbox.Backlog(t.Context(), db)
		require.NoError(t, err)
		require.EqualValues(t, 303, n)
		require.WithinDuration(t, time.Now(), oldest, 10*time.Second)
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(20*time.Millisecond)))
		empty(t, db)

		require.Len(t, b.messages, 4)
		byTopic := map[string][]int{}
		for _, m := range b.messages {
			good, bad := contract.Decode[contract.OrderEvent](m.Body)
			require.Empty(t, bad)
			require.NotEmpty(t, good[0].Traceparent)
			require.LessOrEqual(t, len(m.Keys), 64)
			if m.DeliverAt.IsZero() {
				byTopic[m.Topic] = append(byTopic[m.Topic], len(good))
				continue
			}
			require.Equal(t, due.UTC().Truncate(time.Millisecond), m.DeliverAt.UTC())
			require.Len(t, good, 2)
			require.Equal(t, []string{"x"}, m.Keys)
		}
		require.Equal(t, map[string][]int{"t1": {256, 44}, "t2": {1}}, byTopic)
	})
}

func TestRolledBackRowsAreNeverPublished(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{}
		r := outbox.NewRelay(db, b, quiet(), outbox.Poll(time.Hour))
		run(t, r)
		boom := errors.New("boom")
		require.ErrorIs(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
			require.NoError(t, outbox.Append(tx, "t", event(1)))
			return boom
		}), boom)
		add(t, db, "t", 2, 3)
		r.Wake() // the next poll is in an hour
		empty(t, db)
		require.Equal(t, map[string]int{"1002": 1}, b.seen(t))
	})
}

func TestTwoRelaysShare(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{}
		for range 3 {
			run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(5*time.Millisecond)))
		}
		const n = 1500
		for from := 0; from < n; from += 50 {
			add(t, db, "t", from, from+50)
		}
		empty(t, db)
		seen := b.seen(t)
		require.Len(t, seen, n)
		for sn, times := range seen {
			require.Equal(t, 1, times, sn)
		}
	})
}

func TestRowsOfAKilledRelayAreClaimedAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		add(t, db, "t", 0, 10)
		// The state after a relay was killed between claiming and publishing.
		start := time.Now()
		require.NoError(t, db.Exec("UPDATE outbox SET claimed_by = 'dead', claimed_until = ?", start.Add(700*time.Millisecond)).Error)
		b := &broker{}
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(10*time.Millisecond)))
		empty(t, db)
		require.GreaterOrEqual(t, time.Since(start), 600*time.Millisecond, "not before the end of the claim")
		require.Len(t, b.seen(t), 10)
	})
}

// lossyPool loses the response to the first claim.
type lossyPool struct {
	gorm.ConnPool
	lost atomic.Bool
}

func (p *lossyPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	result, err := p.ConnPool.ExecContext(ctx, query, args...)
	if strings.HasPrefix(query, "UPDATE outbox SET claimed_until") && p.lost.CompareAndSwap(false, true) {
		return nil, errors.New("connection lost")
	}
	return result, err
}

// A relay whose claim got no response does not leave the rows until the end of the claim.
func TestRowsOfAClaimWithoutAResponseAreClaimedAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		add(t, db, "t", 0, 10)
		pool := &lossyPool{ConnPool: db.Statement.ConnPool}
		lossy := db.WithContext(t.Context())
		lossy.Statement.ConnPool = pool
		b := &broker{}
		stop := run(t, outbox.NewRelay(lossy, b, quiet(), outbox.Poll(10*time.Millisecond), outbox.ClaimFor(time.Hour)))
		empty(t, db)
		stop()
		require.True(t, pool.lost.Load())
		require.Len(t, b.seen(t), 10)
	})
}

// countingPool counts statements.
type countingPool struct {
	gorm.ConnPool
	statements atomic.Int64
}

func (p *countingPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.statements.Add(1)
	return p.ConnPool.ExecContext(ctx, query, args...)
}

func (p *countingPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.statements.Add(1)
	return p.ConnPool.QueryContext(ctx, query, args...)
}

// Events of payments come one by one, so the statements of a pass are the cost of an event.
func TestAMessageTakesThreeStatements(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		add(t, db, "t", 0, 10)
		pool := &countingPool{ConnPool: db.Statement.ConnPool}
		counting := db.WithContext(t.Context())
		counting.Statement.ConnPool = pool
		run(t, outbox.NewRelay(counting, &broker{}, quiet(), outbox.Poll(time.Hour)))
		empty(t, db)
		require.Eventually(t, func() bool { return pool.statements.Load() >= 4 }, time.Minute, time.Millisecond)
		require.EqualValues(t, 3+1, pool.statements.Load(), "read, claim, delete; and nothing more to read")
	})
}

func TestStoppedRelayReleasesItsClaim(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		add(t, db, "t", 0, 10)
		stuck := &broker{hold: make(chan struct{})}
		stop := run(t, outbox.NewRelay(db, stuck, quiet(), outbox.ClaimFor(time.Hour)))
		require.Eventually(t, func() bool { stuck.mu.Lock(); defer stuck.mu.Unlock(); return stuck.calls > 0 }, 30*time.Second, time.Millisecond)
		stop()
		b := &broker{}
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(10*time.Millisecond)))
		empty(t, db) // without waiting for the end of the claim
		require.Len(t, b.seen(t), 10)
	})
}

func TestOneTopicDownDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{}
		b.setDown("down", true)
		add(t, db, "down", 0, 1100) // more than the rows of one claim
		add(t, db, "up", 2000, 2005)
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(10*time.Millisecond)))
		require.Eventually(t, func() bool { return len(b.seen(t)) == 5 }, 60*time.Second, 10*time.Millisecond)
		b.setDown("down", false)
		empty(t, db)
		require.Len(t, b.seen(t), 1105)
	})
}

// The broker refuses every message with one of the rows. The others of its topic are published.
func TestARefusedRowDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{poison: []string{`"1003"`}}
		add(t, db, "t", 0, 600)
		r := outbox.NewRelay(db, b, quiet(), outbox.Poll(10*time.Millisecond))
		run(t, r)
		require.Eventually(t, func() bool {
			n, _, err := outbox.Backlog(t.Context(), db)
			return err == nil && n == 1
		}, 30*time.Second, 10*time.Millisecond)
		seen := b.seen(t)
		require.Len(t, seen, 599)
		for sn, times := range seen {
			require.Equal(t, 1, times, sn)
		}
		b.mu.Lock()
		b.poison = nil
		b.mu.Unlock()
		empty(t, db)
		require.Len(t, b.seen(t), 600)
	})
}

// A row that this relay could not publish is published by another one. When the broker takes messages again, this relay
// logs the end of the outage all the same.
func TestTheEndOfAnOutageIsLogged(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		var b broker
		var log lines
		b.setDown("t", true)
		add(t, db, "t", 0, 1)
		run(t, outbox.NewRelay(db, &b, slog.New(slog.NewTextHandler(&log, nil)), outbox.Poll(10*time.Millisecond)))
		require.Eventually(t, func() bool { return log.has("outbox: publish failed, will retry") }, time.Minute, 10*time.Millisecond)
		require.Eventually(t, func() bool {
			return db.Exec("DELETE FROM outbox").RowsAffected == 1
		}, time.Minute, 10*time.Millisecond)
		b.setDown("t", false)
		add(t, db, "t", 1, 2)
		require.Eventually(t, func() bool { return log.has("outbox: publish works again") }, time.Minute, 10*time.Millisecond)
	})
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// The broker refuses many rows in front of all others, and rows that have a delivery time of their own. The others of
// the topic are published.
func TestManyRefusedRowsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{}
		for n := range 10 {
			b.poison = append(b.poison, fmt.Sprintf("%q", fmt.Sprint(1000+n)))
		}
		require.NoError(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error {
			for n := range 5 {
				raw, err := json.Marshal(event(n))
				require.NoError(t, err)
				row := outbox.Row{Topic: "t", Item: raw, DeliverAt: time.Now().Add(time.Duration(n+1) * time.Hour)}
				require.NoError(t, outbox.Add(tx, row))
			}
			return nil
		}))
		add(t, db, "t", 5, 600)
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(10*time.Millisecond)))
		require.Eventually(t, func() bool {
			n, _, err := outbox.Backlog(t.Context(), db)
			return err == nil && n == 10
		}, 40*time.Second, 10*time.Millisecond)
		require.Len(t, b.seen(t), 590)
		add(t, db, "t", 600, 700) // more rows pass behind the refused ones
		require.Eventually(t, func() bool { return len(b.seen(t)) == 690 }, 20*time.Second, 10*time.Millisecond)
		b.mu.Lock()
		b.poison = nil
		b.mu.Unlock()
		empty(t, db)
		for sn, times := range b.seen(t) {
			require.Equal(t, 1, times, sn)
		}
		require.Len(t, b.seen(t), 700)
	})
}

func TestBackOffWhileTheBusIsDown(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t, migrations(t))
	b := &broker{}
	b.setDown("t", true)
	r := outbox.NewRelay(db, b, quiet(), outbox.Poll(time.Millisecond))
	run(t, r)
	add(t, db, "t", 0, 1)
	began := time.Now()
	require.Eventually(t, func() bool {
		r.Wake()
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.calls >= 4
	}, 60*time.Second, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), 600*time.Millisecond, "pauses of 100, 200 and 400 ms, each less up to a quarter")
	b.setDown("t", false)
	empty(t, db)
}

func TestDatabaseDownThenAvailable(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDBDSN(t) // without the table, which fails like a database that is down
	db, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	b := &broker{}
	stop := run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(5*time.Millisecond)))
	require.NoError(t, sqldb.Migrate(t.Context(), db, migrations(t), quiet()))
	add(t, db, "t", 0, 3)
	empty(t, db)
	require.Len(t, b.seen(t), 3)
	stop()
}

func TestUnpublishableRowIsParked(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		add(t, db, "t", 0, 3)
		require.NoError(t, db.Exec("UPDATE outbox SET item = 'not json' WHERE msg_key = '1001'").Error)
		b := &broker{}
		run(t, outbox.NewRelay(db, b, quiet(), outbox.Poll(5*time.Millisecond)))
		require.Eventually(t, func() bool { // published rows are deleted a moment later
			n, _, err := outbox.Backlog(t.Context(), db)
			return err == nil && n == 1 && len(b.seen(t)) == 2
		}, 60*time.Second, 10*time.Millisecond)
	})
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t, migrations(t))
	require.Error(t, outbox.Append(db, "t", event(1)), "outside of a transaction")
	for name, row := range map[string]outbox.Row{
		"no topic": {Item: json.RawMessage(`{}`)},
		"no JSON":  {Topic: "t", Item: json.RawMessage(`{`)},
		"too big":  {Topic: "t", Item: json.RawMessage(`"` + strings.Repeat("x", contract.MaxBytes) + `"`)},
		"too far":  {Topic: "t", Item: json.RawMessage(`{}`), DeliverAt: time.Now().Add(bus.MaxDelay + time.Hour)},
	} {
		require.Error(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error { return outbox.Add(tx, row) }), name)
	}
	bad := event(1)
	bad.UserID = ""
	require.Error(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error { return outbox.Append(tx, "t", bad) }))
	require.NoError(t, sqldb.InTx(t.Context(), db, func(tx *gorm.DB) error { return outbox.Add(tx) }))
}

func TestRowsOfAContinuousStreamShareMessages(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations(t), func(t *testing.T, db *gorm.DB) {
		b := &broker{}
		r := outbox.NewRelay(db, b, quiet())
		run(t, r)
		began := time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := range 200 {
			<-tick.C
			add(t, db, contract.TopicOrderEvents, n, n+1)
			r.Wake()
		}
		took := time.Since(began)
		require.Eventually(t, func() bool { return len(b.seen(t)) == 200 }, 30*time.Second, 10*time.Millisecond)
		b.mu.Lock()
		defer b.mu.Unlock()
		require.LessOrEqual(t, len(b.messages), 20+int(took/(100*time.Millisecond)), "messages of 200 rows in %s", took)
	})
}
