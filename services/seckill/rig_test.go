package seckill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill"
)

// testDB is this module's database on the Redis that tests share.
const testDB = 2

func redisAddr() string {
	if addrs := os.Getenv("REDIS_ADDRS"); addrs != "" {
		return strings.Split(addrs, ",")[0]
	}
	return "127.0.0.1:16379"
}

func TestMain(m *testing.M) {
	// The journals of earlier runs would be published again. The tests that need Redis report its absence.
	rdb := stockgate.Connect([]string{redisAddr()}, testDB)
	_ = rdb.FlushDB(context.Background()).Err()
	_ = rdb.Close()
	goleak.VerifyTestMain(m)
}

// worker is a lease of a worker id that holds until lost is set.
type worker struct{ lost bool }

func (w *worker) Worker(int64) (int, bool) { return 1, !w.lost }

// rig is a running service with its dependencies and a client.
type rig struct {
	*testing.T
	url     string
	service *seckill.Service
	gate    *stockgate.Gate
	rdb     redis.UniversalClient
	mini    *miniredis.Miniredis // nil on real Redis
	client  *http.Client
	stop    func() // ends the service and waits for it
	lease   *worker

	mu        sync.Mutex
	published []contract.Reservation
}

// config holds the settings that cmd/seckill loads and a test may change.
type config struct {
	settings.App
	settings.Redis
	admission.Settings
	seckill.Config
}

// Validate is called by settings.Load, as in cmd/seckill.
func (c *config) Validate() error { return c.Config.Check() }

type setup struct {
	real bool
	down bool // Redis is not started
	tel  *telemetry.Telemetry
	cfg  func(*config)
	deps func(*seckill.Deps)
}

func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	r := &rig{T: t, lease: &worker{}}
	addr, db := redisAddr(), testDB
	if !s.real {
		db = 0
		r.mini = miniredis.NewMiniRedis()
		require.NoError(t, r.mini.StartAddr(porttest.Free(t))) // a port that stays reserved while Redis is down
		t.Cleanup(r.mini.Close)
		addr = r.mini.Addr()
		if s.down {
			r.mini.Close()
		}
	}
	const timeout = 20 * time.Second // so that a machine under load causes no time-outs of Redis
	r.rdb = stockgate.Connect([]string{addr}, db, func(o *redis.UniversalOptions) {
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
	})
	t.Cleanup(func() { _ = r.rdb.Close() })
	if s.real {
		require.NoError(t, r.rdb.Ping(t.Context()).Err(), "no Redis at %s; run `make test`, which starts one", addr)
	}
	r.gate = stockgate.New(r.rdb, stockgate.Options{Timeout: timeout})

	var cfg config
	require.NoError(t, settings.Load(&cfg, map[string]string{"AUTH_DEV_TOKENS": "true", "BROKERLESS_AFTER": "0"}))
	cfg.GateTimeout, cfg.GateWait = timeout, 30*time.Second
	if s.cfg != nil {
		s.cfg(&cfg)
	}
	tel := s.tel
	if tel == nil {
		tel = telemetry.Discard(t)
	}
	broker := inproc.New(inproc.Options{RetryMin: time.Millisecond}, slog.New(slog.DiscardHandler))
	require.NoError(t, broker.Subscribe(bus.Subscription{Topic: contract.TopicReservations, Group: "test"}, r.receive))
	limits, err := admission.Local(cfg.Settings, tel)
	require.NoError(t, err)
	deps := seckill.Deps{Redis: r.rdb, Bus: broker, Telemetry: tel, Limits: limits, Lease: r.lease}
	if s.deps != nil {
		s.deps(&deps)
	}
	service, err := seckill.New(cfg.Config, deps)
	require.NoError(t, err)
	r.service = service

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.url = "http://" + l.Addr().String()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: time.Minute}
	components := append(service.Components(), lifecycle.Component{Name: "http", Run: func(ctx context.Context) error {
		return httpserver.Serve(ctx, "http", l, service.Handler(), tel.Log)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- lifecycle.Run(ctx, tel.Log, 15*time.Second, components...) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, broker.Close(context.Background()))
		r.client.CloseIdleConnections()
	})
	t.Cleanup(r.stop)
	return r
}

func (r *rig) receive(_ context.Context, d bus.Delivery) error {
	items, bad := contract.Decode[contract.Reservation](d.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range bad {
		r.Errorf("bad item: %v", b.Err)
	}
	r.published = append(r.published, items...)
	return nil
}

// publishedFor returns the reservations of an activity that were published so far.
func (r *rig) publishedFor(activity string) []contract.Reservation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of []contract.Reservation
	for _, p := range r.published {
		if p.ActivityID == activity {
			of = append(of, p)
		}
	}
	return of
}

func (r *rig) now() time.Time {
	r.Helper()
	now, err := r.gate.Now(r.Context())
	require.NoError(r, err)
	return now
}

// setTime sets Redis time and waits until the service uses it.
func (r *rig) setTime(to time.Time) {
	r.Helper()
	r.mini.SetTime(to)
	require.NoError(r, r.gate.MarkReady(r.Context()))
	probe := r.sale(1)
	require.Eventually(r, func() bool {
		shown, err := time.Parse(time.RFC3339Nano, r.call("GET", "/v1/activities/"+probe, "", nil).str("server_time"))
		return err == nil && shown.Sub(to).Abs() < 10*time.Second
	}, 30*time.Second, 20*time.Millisecond)
}

// sale opens a sale of that many units of SKU 1 and as many of SKU 2.
func (r *rig) sale(units int64, change ...func(*stockgate.Config)) (activity string) {
	r.Helper()
	activity = strconv.FormatInt(rand.Int64N(1<<50)+1, 10)
	now := r.now()
	cfg := stockgate.Config{State: stockgate.GateOpen, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1, Version: 1}
	for _, c := range change {
		c(&cfg)
	}
	stock := map[string]int64{"1": units, "2": units}
	require.NoError(r, r.gate.Preload(r.Context(), activity, stockgate.Snapshot{Config: cfg, Stock: stock, Totals: stock}))
	require.NoError(r, r.gate.PutSale(r.Context(), stockgate.Sale{
		ActivityID: activity, Title: "A sale", State: cfg.State, StartsAt: cfg.StartsAt, EndsAt: cfg.EndsAt, PerUserLimit: cfg.PerUserLimit, Version: 1,
		Items: []stockgate.SaleItem{{SKUID: "1", Name: "one", Price: 100, Currency: "EUR", Total: units}, {SKUID: "2", Name: "two", Price: 200, Currency: "EUR", Total: units}},
	}))
	require.NoError(r, r.gate.MarkReady(r.Context()))
	return activity
}

// response is an HTTP response with its body.
type response struct {
	*http.Response
	raw  string
	body map[string]any
}

// call sends a request; token "" means none, body nil means none.
func (r *rig) call(method, path, token string, body any, header ...string) response {
	r.Helper()
	a, err := r.try(method, path, token, body, header...)
	require.NoError(r, err)
	return a
}

// retry posts like a buyer: after a 503 the outcome is unknown, so it repeats the same request.
func (r *rig) retry(path, token string, body any) (a response, err error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		a, err = r.try("POST", path, token, body)
		if err != nil || a.StatusCode != http.StatusServiceUnavailable {
			break
		}
	}
	return a, err
}

func (r *rig) try(method, path, token string, body any, header ...string) (response, error) {
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return response{}, err
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(r.Context(), method, r.url+path, content)
	if err != nil {
		return response{}, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return response{}, err
	}
	a := response{Response: res, raw: string(raw)}
	if strings.Contains(res.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &a.body); err != nil {
			return response{}, err
		}
	}
	return a, nil
}

// is asserts status and, for a refusal, the code.
func (a response) is(t require.TestingT, status int, code contract.Code) response {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.Equal(t, status, a.StatusCode, a.raw)
	if code != "" {
		require.Equal(t, string(code), a.body["code"], a.raw)
		require.Equal(t, "application/problem+json", a.Header.Get("Content-Type"))
		require.NotEmpty(t, a.body["trace_id"])
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
	return a
}

func (a response) str(name string) string { s, _ := a.body[name].(string); return s }

func (r *rig) token(user string) string {
	r.Helper()
	token, err := auth.Mint(settings.DevelopmentAuthSecret, auth.Identity{UserID: user}, time.Hour)
	require.NoError(r, err)
	return token
}

type path struct{ token, path, orderSN, activity string }

func (r *rig) path(user, activity string) path {
	r.Helper()
	token := r.token(user)
	a := r.call("POST", "/v1/activities/"+activity+"/paths", token, nil).is(r, http.StatusCreated, "")
	return path{token, a.str("path"), a.str("order_sn"), activity}
}

func oneOf(sku string) map[string]any {
	return map[string]any{"lines": []map[string]any{{"sku_id": sku, "qty": 1}}}
}

func (r *rig) buy(p path, body any) response {
	r.Helper()
	return r.call("POST", "/v1/activities/"+p.activity+"/paths/"+p.path+"/reservations", p.token, body)
}
