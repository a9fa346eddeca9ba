package inventory

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// started runs the service's loops until the test ends.
func started(t *testing.T, svc *Service, tel *telemetry.Telemetry) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := lifecycle.Run(ctx, tel.Log, 10*time.Second, svc.Components()...); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
}

// At the start there are no tables and no Redis. The service responds 503, keeps trying, and works as soon as they
// are up.
func TestConcurrentLoopsWaitForTheirDependencies(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDBDSN(t)
	db, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	addr := porttest.Free(t)
	rdb := stockgate.Connect([]string{addr}, 0)
	t.Cleanup(func() { _ = rdb.Close() })
	tel := telemetry.Discard(t)
	b := inproc.New(inproc.Options{RetryMin: 20 * time.Millisecond, RetryMax: 100 * time.Millisecond}, tel.Log)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	svc, err := New(Config{
		Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}},
		Timers: often(50 * time.Millisecond),
	}, Deps{DB: db, Redis: rdb, Bus: b, Telemetry: tel})
	require.NoError(t, err)
	started(t, svc, tel)
	s := &shop{t: t, svc: svc, db: db}
	s.token = s.mint("m", auth.Merchant)
	require.Equal(t, 503, s.do("GET", "/v1/merchant/products", "").status)
	early := contract.Reservation{OrderSN: newSN(), UserID: "u1", ActivityID: "1", Lines: []contract.Line{{SKUID: "1", Qty: 1}}, ReservedAt: time.Now()}

	require.NoError(t, Migrate(t.Context(), db, tel.Log))
	id := s.draft(s.product("EUR")[0], 5)
	require.Equal(t, "gate_unavailable", s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").code())
	early.ActivityID = id
	var view struct {
		Items []struct {
			SKU string `json:"sku_id"`
		}
	}
	s.do("GET", "/v1/merchant/activities/"+id, "").into(t, &view)
	early.Lines[0].SKUID = view.Items[0].SKU
	bodies, err := contract.Encode([]contract.Reservation{early})
	require.NoError(t, err)
	require.NoError(t, b.Publish(t.Context(), bus.Message{Topic: contract.TopicReservations, Body: bodies[0]}))

	mini := miniredis.NewMiniRedis()
	require.NoError(t, mini.StartAddr(addr))
	t.Cleanup(mini.Close)
	gate := stockgate.New(rdb, stockgate.Options{})
	require.Eventually(t, func() bool {
		ready, err := gate.Ready(t.Context())
		if err != nil || !ready {
			return false
		}
		found, err := gate.Lookup(t.Context(), id, []string{early.OrderSN})
		return err == nil && found[early.OrderSN].Landed
	}, 45*time.Second, 50*time.Millisecond, "the gate controller fills Redis, and the early message lands")
	require.Equal(t, 200, s.do("POST", "/v1/merchant/activities/"+id+"/publish", "").status)
}

// A restart of a real master changes its run id. Here another database number stands for an empty Redis.
func TestOnARealRedis(t *testing.T) {
	t.Parallel()
	addr := os.Getenv("REDIS_ADDRS")
	if addr == "" {
		addr = "127.0.0.1:16379"
	}
	rdb := redis.NewClient(&redis.Options{Addr: strings.Split(addr, ",")[0], DB: 3})
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoError(t, rdb.FlushDB(t.Context()).Err(), "no Redis at %s (REDIS_ADDRS): run `make test`, which starts one", addr)
	t.Cleanup(func() { _ = rdb.FlushDB(context.Background()) })
	w := newWorldOn(t, dbtest.MariaDB(t, Migrations), []string{strings.Split(addr, ",")[0]}, 3)
	a := w.sale(1, 50)
	var all []contract.Reservation
	for i := range 30 {
		all = append(all, w.buy(a, fmt.Sprint("u", i)))
	}
	w.land(all[:20]...)
	w.follow(event(all[0], contract.OrderCreated), event(all[1], contract.OrderPaid), event(all[2], contract.OrderClosed))
	v, err := w.merchants.StockView(w.ctx, core.AllMerchants(), a.ID)
	require.NoError(t, err)
	require.Equal(t, int64(10), v.SKUs[0].Gate.InFlight+v.SKUs[0].Gate.Journal)
	require.Zero(t, v.SKUs[0].Difference)
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	require.NoError(t, rdb.FlushDB(t.Context()).Err())
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	require.Equal(t, int64(31), w.left(a, 0))
	w.land(all...)
	w.agree(a)
	require.Equal(t, int64(21), w.left(a, 0))
	_, err = w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{ActivityID: a.ID, SKUID: a.Items[0].SKUID, Delta: -21, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: "k"}})
	require.NoError(t, err)
	w.agree(a)
	_, outcome := w.reserve(a, "late")
	require.Equal(t, stockgate.SoldOut, outcome)
}

// One purchase is one trace: the spans of inventory are children of the message's item, and those of its messages
// below them.
func TestSpansOfALanding(t *testing.T) {
	t.Parallel()
	tel, recorder := telemetry.Recording()
	w := newWorld(t)
	a := w.sale(1, 5)
	svc, err := New(Config{Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}}}, Deps{DB: w.db, Redis: w.rdb, Bus: discardBus{w.broker}, Telemetry: tel})
	require.NoError(t, err)
	w.parts.Recorder = svc.recorder
	r := w.buy(a, "u1")
	ctx, end := tel.Span(t.Context(), "the gate", trace.SpanKindInternal)
	r.Traceparent = telemetry.Traceparent(ctx)
	end(nil)
	other := w.buy(a, "u2") // not sampled
	subs := map[string]bus.Handler{}
	require.NoError(t, consumerOf(svc).Subscribe(recordingBus{discardBus{w.broker}, subs}, 1))
	require.NoError(t, subs[contract.TopicReservations](t.Context(), message(t, contract.TopicReservations, r, other)))

	byName := map[string]tracetest.SpanStub{}
	var root trace.TraceID
	for _, span := range tracetest.SpanStubsFromReadOnlySpans(recorder.Ended()) {
		require.NotContains(t, byName, span.Name, "one span of each in the one sampled trace")
		byName[span.Name] = span
		if span.Name == "the gate" {
			root = span.SpanContext.TraceID()
		}
	}
	parents := map[string]string{
		"process seckill-reservations": "the gate", "ledger transaction": "process seckill-reservations",
		"gate settle": "process seckill-reservations", "publish inventory-deductions": "process seckill-reservations",
	}
	for name, parent := range parents {
		require.Contains(t, byName, name)
		require.Equal(t, root, byName[name].SpanContext.TraceID(), name)
		require.Equal(t, byName[parent].SpanContext.SpanID(), byName[name].Parent.SpanID(), name)
	}
	d := w.deductions()
	require.Contains(t, d[r.OrderSN].Traceparent, byName["publish inventory-deductions"].SpanContext.SpanID().String())
	require.Empty(t, d[other.OrderSN].Traceparent)
	require.Contains(t, w.row(r.OrderSN).Traceparent, root.String())
	var found bool
	for _, at := range byName["ledger transaction"].Attributes {
		found = found || string(at.Key) == "db.system" && at.Value.AsString() == "mysql"
	}
	require.True(t, found, "the ledger transaction names its database")
	page := metricsOf(t, tel)
	for _, name := range []string{`flashsale_inventory_reservations_total{flashsale_outcome="landed"} 2`, "flashsale_inventory_landing_lag"} {
		require.Contains(t, page, name)
	}
	require.NotContains(t, page, r.OrderSN)
}

// often lets the gate controller and the sweeps run at the interval.
func often(interval time.Duration) settings.Timers {
	return settings.Timers{TestTimers: map[string]time.Duration{
		"inventory.keep_every": interval, "inventory.sweep_every": interval,
	}}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, wrong := range [][2]string{
		{"ORDER_INTERNAL_URL", "order:7082"},
		{"TEST_TIMERS", "inventory.refund_every=1s"},
		{"INVENTORY_RESETTLE_WINDOW", "1ms"},
		{"CONSUMERS", "65"},
		{"MERCHANT_MAX_ACTIVITIES", "0"},
		{"MERCHANT_MAX_ACTIVITIES", "-1"},
		{"MERCHANT_MAX_ACTIVITIES", "10001"},
		{"MERCHANT_MAX_SKUS", "0"},
		{"MERCHANT_MAX_SKUS", "-1"},
		{"MERCHANT_MAX_SKUS", "1000001"},
	} {
		var c struct {
			settings.App
			Config
		}
		require.NoError(t, settings.Load(&c, map[string]string{wrong[0]: wrong[1]}))
		require.ErrorContains(t, c.Check(), wrong[0], wrong[1])
	}
	var c struct {
		settings.App
		Config
	}
	require.NoError(t, settings.Load(&c, map[string]string{}))
	require.NoError(t, c.Check())
}

type discardBus struct{ *broker }

func (discardBus) Subscribe(bus.Subscription, bus.Handler) error { return nil }
func (discardBus) Close(context.Context) error                   { return nil }

type recordingBus struct {
	discardBus
	handlers map[string]bus.Handler
}

func (b recordingBus) Subscribe(s bus.Subscription, h bus.Handler) error {
	b.handlers[s.Topic] = h
	return nil
}

func metricsOf(t *testing.T, tel *telemetry.Telemetry) string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	require.NoError(t, err)
	w := &page{header: http.Header{}}
	tel.Metrics.ServeHTTP(w, r)
	return w.text.String()
}

type page struct {
	header http.Header
	text   strings.Builder
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) Write(b []byte) (int, error) { return p.text.Write(b) }
func (p *page) WriteHeader(int)             {}
