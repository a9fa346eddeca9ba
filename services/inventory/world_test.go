package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/consumer"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gate"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/orders"
	"flashsale.internal/services/inventory/internal/publisher"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/record"
	"flashsale.internal/services/inventory/internal/redisless"
	"flashsale.internal/services/inventory/internal/restore"
	"flashsale.internal/services/inventory/internal/store"
	"flashsale.internal/services/inventory/internal/sweep"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given { // each history is some hundred transactions
		_ = flag.Set("rapid.checks", checks(15))
	}
	goleak.VerifyTestMain(m)
}

// checks returns the value of rapid.checks that makes n checks. With -short rapid makes a fifth of the value, and half
// of the steps in each.
func checks(n int) string {
	if testing.Short() {
		n *= 5
	}
	return strconv.Itoa(n)
}

// world is an inventory on a real database and a gate. The test plays the order service and the broker.
type world struct {
	t   testing.TB
	ctx context.Context
	db  *gorm.DB
	process
	consumer *consumer.Consumer
	rdb      redis.UniversalClient
	gate     *stockgate.Gate
	broker   *broker
	orders   *orderService
	faults   *faults
	shift    time.Duration     // how far the clocks of the database and of the service are ahead
	fixed    func() time.Time  // instead of the clock of the database, if not nil
	skew     time.Duration     // how far the service's clock is ahead of the database's
	shown    map[string]string // order_sn -> the stage codes that its buyer read of a damaged entry, or of a lost order
	parts    parts
	master   *master // nil: that of Redis
	tel      *telemetry.Telemetry
}

// patient sets long time-outs, so that a slow machine is not taken for an unreachable Redis. A repeated call would
// find its own effects.
func patient(o *redis.UniversalOptions) {
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
}

// newWorld returns a world on a database and a gate of its own.
func newWorld(t testing.TB) *world {
	return newWorldOn(t, dbtest.MariaDB(t, Migrations), []string{miniredis.RunT(t).Addr()}, 0)
}

func newWorldOn(t testing.TB, db *gorm.DB, redisAddrs []string, redisDB int) *world {
	w := &world{t: t, ctx: t.Context(), db: db, broker: &broker{}, faults: &faults{}, tel: telemetry.Discard(nil), shown: map[string]string{}}
	w.rdb = stockgate.Connect(redisAddrs, redisDB, patient)
	t.Cleanup(func() { _ = w.rdb.Close() })
	w.gate = stockgate.New(w.rdb, stockgate.Options{Timeout: time.Minute, BreakerFailures: 1000})
	w.orders = newOrderService(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	seen, err := record.New(w.tel, "mysql")
	require.NoError(t, err)
	w.parts = parts{
		Store: &faultyStore{store.New(db, store.WithClock(w.databaseNow)), w.faults}, Gate: &faultyGate{gate.New(w.gate), w.faults},
		Pub:    &faultyPub{publisher.New(w.broker, w.tel), w.faults},
		Orders: &faultyOrders{orders.New(w.orders.url, []string{"a secret for tests only, of length"}, transport), w.faults},
		Locks:  locks{newLocker(w.rdb, w.tel.Log, lock.TTL(time.Minute))}, Recorder: seen, Timing: core.DefaultTiming(), Quotas: merchants.Quotas{Activities: 1 << 20, SKUs: 1 << 20}, Sweep: sweep.DefaultConfig(), Reconcile: reconcile.DefaultConfig(),
		Now: func() time.Time { return w.databaseNow().Add(w.skew) },
	}
	w.parts.BuildLocks, w.parts.Build = locks{lock.New(w.rdb, w.tel.Log)}, gates.DefaultBuildConfig()
	w.parts.Timing.Pause = time.Millisecond
	w.parts.Reconcile.Pause, w.parts.Reconcile.Grace = 5*time.Millisecond, time.Millisecond
	w.restart()
	return w
}

// parts are the adapters and settings that a process works with.
type parts struct {
	Store     *faultyStore
	Gate      *faultyGate
	Pub       core.Publisher
	Orders    *faultyOrders
	Locks     reconcile.Locks
	Recorder  *record.Recorder
	Now       func() time.Time
	Clocks    func(ctx context.Context) error // nil: the process may decide by time
	Timing    core.Timing
	Quotas    merchants.Quotas
	Sweep     sweep.Config
	Held      func() bool // nil: the broker holds no messages back
	Reconcile reconcile.Config

	BrokerlessFor func() time.Duration // nil: the broker takes messages

	BuildLocks gates.Locks // nil for none
	Build      gates.BuildConfig

	replaced []func(p *ports)
}

// ports are those of a process that tests replace. All others are the adapters of its parts.
type ports struct {
	tables      core.Store
	recorder    core.Recorder
	gate        gates.Effects
	rows        gates.Rows
	redis       gates.Redis
	sold        redisless.Rows
	compared    reconcile.Holdings
	repairs     reconcile.Repairs
	repaired    reconcile.Recorder
	adjustments sweep.AdjustmentsStore
}

// with returns p with one more function that replaces ports.
func (p parts) with(replace func(p *ports)) parts {
	p.replaced = append(slices.Clip(p.replaced), replace)
	return p
}

func (p parts) ports() *ports {
	all := &ports{
		tables: p.Store, recorder: p.Recorder, gate: p.Gate, rows: p.Store, redis: p.Gate, sold: p.Store, compared: p.Gate,
		repairs: p.Gate, repaired: p.Recorder, adjustments: p.Store,
	}
	for _, replace := range p.replaced {
		replace(all)
	}
	return all
}

// process is what one process of inventory runs, without its loops.
type process struct {
	core            *core.Service
	reconciler      *reconcile.Reconciler
	merchants       *merchants.Service
	syncer          *gates.Syncer
	redisless       *redisless.Service
	watch           *redisless.Watch
	gates           *gates.Controller
	importer        *restore.Importer
	orderSweep      *sweep.Orders
	overdueSweep    *sweep.Overdue
	journalSweep    *sweep.Journal
	adjustmentSweep *sweep.Adjustments
}

// start makes a process, with no memory of any before.
func (p parts) start() process {
	ports := p.ports()
	incidents, watch := core.NewIncidents(ports.recorder, p.Now), redisless.NewWatch(p.Store, p.Gate)
	guard := core.Guard{Store: p.Store, Watch: watch}
	syncer := gates.New(gates.Deps{
		Activities: p.Store, Rows: ports.rows, Confirmations: p.Store, Adjustments: p.Store, Epochs: p.Store, Gate: ports.gate,
		Guard: guard, Recorder: p.Recorder, Incidents: incidents, CheckClocks: p.Clocks, Window: p.Timing.ResettleWindow,
		Pause: p.Timing.Pause, Locks: p.BuildLocks, Limits: p.Build,
	})
	svc := core.New(core.Deps{
		Store: ports.tables, DeadLetters: p.Store, Gate: p.Gate, Pub: p.Pub, Orders: p.Orders, Recorder: ports.recorder,
		Gates: syncer, Incidents: incidents, Guard: guard, HoldBack: redisless.HoldBack, Now: p.Now, Timing: p.Timing,
	})
	shop := merchants.New(merchants.Deps{
		Activities: p.Store, Products: p.Store, Rows: p.Store, Changed: p.Store, History: p.Store, Gate: p.Gate, Gates: syncer, Ledger: svc,
		Guard: guard, Orders: p.Orders, Recorder: p.Recorder, Now: p.Now, Pause: p.Timing.Pause, Quotas: p.Quotas,
		Profiles: p.Store,
	})
	sales := redisless.New(redisless.Deps{
		Sales: p.Store, Rows: ports.sold, Inventory: svc, Gates: syncer, Watch: watch, Recorder: p.Recorder,
		Incidents: incidents, RepublishAfter: p.Timing.RepublishAfter,
	})
	held := p.Held
	if held == nil {
		held = func() bool { return false }
	}
	brokerlessFor := p.BrokerlessFor
	if brokerlessFor == nil {
		brokerlessFor = func() time.Duration { return 0 }
	}
	return process{
		core: svc, merchants: shop, syncer: syncer, redisless: sales, watch: watch,
		reconciler: reconcile.New(reconcile.Deps{
			Activities: p.Store, Rows: p.Store, Adjustments: p.Store, Imports: p.Store, Gate: ports.compared, Repairs: ports.repairs,
			Gates: syncer, Locks: p.Locks, Recorder: ports.repaired, Incidents: incidents, Epochs: svc, Now: p.Now, Config: p.Reconcile,
		}),
		gates: gates.NewController(gates.ControllerDeps{
			Syncer: syncer, Registry: p.Gate, Redis: ports.redis, Modes: sales, Inventory: svc, Now: p.Now,
		}),
		importer: restore.NewImporter(restore.Deps{
			Epochs: p.Store, Tables: p.Store, Entries: p.Gate, Gate: p.Gate, Orders: p.Orders, Gates: syncer,
			Inventory: svc, Recorder: ports.repaired, Incidents: incidents, Now: p.Now,
		}),
		orderSweep: sweep.NewOrders(sweep.OrdersDeps{
			Store: p.Store, Inventory: svc, Recorder: p.Recorder, Incidents: incidents, BrokerlessFor: brokerlessFor,
			Config: p.Sweep.OrdersConfig,
		}),
		overdueSweep: sweep.NewOverdue(sweep.OverdueDeps{
			Store: p.Store, Inventory: svc, Recorder: p.Recorder, Incidents: incidents, Held: held, Config: p.Sweep.OverdueConfig,
		}),
		journalSweep: sweep.NewJournal(sweep.JournalDeps{
			Store: p.Store, Gate: p.Gate, Gates: syncer, Recorder: p.Recorder, Incidents: incidents,
			BrokerlessFor: brokerlessFor, Config: p.Sweep.JournalConfig,
		}),
		adjustmentSweep: sweep.NewAdjustments(sweep.AdjustmentsDeps{
			Store: ports.adjustments, Gates: syncer, Config: p.Sweep.AdjustmentsConfig,
		}),
	}
}

// databaseNow returns the time of the database, which is that of Redis while shift and fixed are not set.
func (w *world) databaseNow() time.Time {
	if w.fixed != nil {
		return w.fixed()
	}
	return time.Now().Add(w.shift)
}

// restart replaces the process of this world by a new one with the same parts.
func (w *world) restart() {
	w.process = w.parts.start()
	w.consumer = consumer.New(w.core, w.tel, w.parts.Now)
}

// faults kills the process before or after its n-th externally visible step.
type faults struct {
	mu    sync.Mutex
	at, n int
	after bool
	dead  bool
}

var errKilled = errors.New("killed")

func (f *faults) kill(at int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.n, f.after, f.dead = at, 0, after, false
}

func (f *faults) heal() (died bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	died = f.dead
	f.at, f.dead = 0, false
	return died
}

func (f *faults) step(do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errKilled
	}
	f.n++
	hit := f.at == f.n
	if hit {
		f.dead = true
	}
	after := f.after
	f.mu.Unlock()
	if !hit {
		return do()
	}
	if after {
		_ = do()
	}
	return errKilled
}

type faultyStore struct {
	*store.Store
	f *faults
}

func (s *faultyStore) Ledger(ctx context.Context, ids []string, fn func(core.LedgerTx) error) error {
	return s.f.step(func() error { return s.Store.Ledger(ctx, ids, fn) })
}

func (s *faultyStore) ChangeAllowances(ctx context.Context, id string, fn func(reconcile.AllowanceTx) error) error {
	return s.f.step(func() error { return s.Store.ChangeAllowances(ctx, id, fn) })
}

func (s *faultyStore) Rebuild(ctx context.Context, id string, fn func(gates.RebuildTx) error) error {
	return s.f.step(func() error { return s.Store.Rebuild(ctx, id, fn) })
}

func (s *faultyStore) AddDeadLetters(ctx context.Context, l []contract.DeadLetter) error {
	return s.f.step(func() error { return s.Store.AddDeadLetters(ctx, l) })
}

func (s *faultyStore) ScheduleRepublish(ctx context.Context, rows []ledger.Row) error {
	return s.f.step(func() error { return s.Store.ScheduleRepublish(ctx, rows) })
}

func (s *faultyStore) BeginAdjustment(
	ctx context.Context, in core.Scope, k core.IdempotencyKey, a core.Adjustment, c core.Change, check func(*core.Activity) error,
) (out *core.Adjustment, err error) {
	err = s.f.step(func() error { out, err = s.Store.BeginAdjustment(ctx, in, k, a, c, check); return err })
	return out, err
}

func (s *faultyStore) DecideAdjustment(ctx context.Context, id string, refuse bool, now time.Time) (out *core.Adjustment, err error) {
	err = s.f.step(func() error { out, err = s.Store.DecideAdjustment(ctx, id, refuse, now); return err })
	return out, err
}

func (s *faultyStore) FinishAdjustment(ctx context.Context, id string, now time.Time) (out *core.Adjustment, err error) {
	err = s.f.step(func() error { out, err = s.Store.FinishAdjustment(ctx, id, now); return err })
	return out, err
}

func (s *faultyStore) PostponeAdjustments(ctx context.Context, list []core.Adjustment) error {
	return s.f.step(func() error { return s.Store.PostponeAdjustments(ctx, list) })
}

func (s *faultyStore) ConfirmGate(ctx context.Context, activityID string, c gates.Confirmation) error {
	return s.f.step(func() error { return s.Store.ConfirmGate(ctx, activityID, c) })
}

func (s *faultyStore) RenewConfirmations(ctx context.Context, activityIDs []string, c gates.Confirmation) error {
	return s.f.step(func() error { return s.Store.RenewConfirmations(ctx, activityIDs, c) })
}

func (s *faultyStore) ChangeActivity(
	ctx context.Context, in core.Scope, id string, c core.Change, growth merchants.Growth, fn func(*core.Activity) (bool, error),
) (out *core.Activity, err error) {
	err = s.f.step(func() error { out, err = s.Store.ChangeActivity(ctx, in, id, c, growth, fn); return err })
	return out, err
}

func (s *faultyStore) BeginRejection(ctx context.Context, id string) error {
	return s.f.step(func() error { return s.Store.BeginRejection(ctx, id) })
}

func (s *faultyStore) DecideDeadLetter(ctx context.Context, d core.DeadLetter, state string, c core.Change) (out *core.DeadLetter, err error) {
	err = s.f.step(func() error { out, err = s.Store.DecideDeadLetter(ctx, d, state, c); return err })
	return out, err
}

func (s *faultyStore) DrawEpoch(ctx context.Context, since time.Time, cause, instead string, now time.Time) (out core.Epoch, err error) {
	err = s.f.step(func() error { out, err = s.Store.DrawEpoch(ctx, since, cause, instead, now); return err })
	return out, err
}

func (s *faultyStore) MoveImport(ctx context.Context, from, to core.Import) (moved bool, err error) {
	err = s.f.step(func() error { moved, err = s.Store.MoveImport(ctx, from, to); return err })
	return moved, err
}

type faultyGate struct {
	*gate.Gate
	f *faults
}

func (g *faultyGate) BeginBuild(ctx context.Context, activityID string) (b gates.Build, err error) {
	err = g.f.step(func() error { b, err = g.Gate.BeginBuild(ctx, activityID); return err })
	return &faultyBuild{b, g.f}, err
}

type faultyBuild struct {
	gates.Build
	f *faults
}

func (b *faultyBuild) Put(ctx context.Context, rows []ledger.Row) error {
	return b.f.step(func() error { return b.Build.Put(ctx, rows) })
}

func (b *faultyBuild) PutAdjusted(ctx context.Context, ids []string) error {
	return b.f.step(func() error { return b.Build.PutAdjusted(ctx, ids) })
}

func (b *faultyBuild) Commit(ctx context.Context, a core.Activity, endedBefore int64, epoch gates.GateEpoch) error {
	return b.f.step(func() error { return b.Build.Commit(ctx, a, endedBefore, epoch) })
}

func (g *faultyGate) Configure(ctx context.Context, activityID string, c core.GateConfig) error {
	return g.f.step(func() error { return g.Gate.Configure(ctx, activityID, c) })
}

func (g *faultyGate) Settle(ctx context.Context, activityID string, s []ledger.Entry) error {
	return g.f.step(func() error { return g.Gate.Settle(ctx, activityID, s) })
}

func (g *faultyGate) Release(ctx context.Context, activityID string, e []ledger.Entry) error {
	return g.f.step(func() error { return g.Gate.Release(ctx, activityID, e) })
}

func (g *faultyGate) Drop(ctx context.Context, activityID string, e []ledger.Entry) error {
	return g.f.step(func() error { return g.Gate.Drop(ctx, activityID, e) })
}

func (g *faultyGate) Adjust(ctx context.Context, activityID string, a core.Adjustment, force bool) error {
	return g.f.step(func() error { return g.Gate.Adjust(ctx, activityID, a, force) })
}

func (g *faultyGate) UndoAdjust(ctx context.Context, activityID string, a core.Adjustment) error {
	return g.f.step(func() error { return g.Gate.UndoAdjust(ctx, activityID, a) })
}

func (g *faultyGate) MarkForImport(ctx context.Context, activityID, epoch string) error {
	return g.f.step(func() error { return g.Gate.MarkForImport(ctx, activityID, epoch) })
}

func (g *faultyGate) RenewEpoch(ctx context.Context, activityID, epoch string, a core.Activity, adjusted []string) error {
	return g.f.step(func() error { return g.Gate.RenewEpoch(ctx, activityID, epoch, a, adjusted) })
}

func (g *faultyGate) RejournalHolding(ctx context.Context, activityID string, sns []string) (n int, err error) {
	err = g.f.step(func() error { n, err = g.Gate.RejournalHolding(ctx, activityID, sns); return err })
	return n, err
}

func (g *faultyGate) Repair(ctx context.Context, activityID, build string, list []ledger.EntryRepair) (done map[string]bool, err error) {
	err = g.f.step(func() error { done, err = g.Gate.Repair(ctx, activityID, build, list); return err })
	return done, err
}

func (g *faultyGate) ReplaceSale(ctx context.Context, a core.Activity) error {
	return g.f.step(func() error { return g.Gate.ReplaceSale(ctx, a) })
}

func (g *faultyGate) ShowSale(ctx context.Context, a core.Activity) error {
	return g.f.step(func() error { return g.Gate.ShowSale(ctx, a) })
}

type faultyPub struct {
	core.Publisher
	f *faults
}

func (p *faultyPub) Deductions(ctx context.Context, d []contract.Deduction, about []contract.ActivityInfo) error {
	return p.f.step(func() error { return p.Publisher.Deductions(ctx, d, about) })
}

func (p *faultyPub) Closing(ctx context.Context, c contract.OrderClose, delay time.Duration) error {
	return p.f.step(func() error { return p.Publisher.Closing(ctx, c, delay) })
}

func (p *faultyPub) Replay(ctx context.Context, l core.DeadLetter) error {
	return p.f.step(func() error { return p.Publisher.Replay(ctx, l) })
}

type faultyOrders struct {
	*orders.Client
	f *faults
}

func (o *faultyOrders) Close(ctx context.Context, sns []string, reason string) (out []core.CloseOutcome, err error) {
	err = o.f.step(func() error { out, err = o.Client.Close(ctx, sns, reason); return err })
	return out, err
}

func (o *faultyOrders) Refund(ctx context.Context, sns []string, reason string) (out map[string]string, err error) {
	err = o.f.step(func() error { out, err = o.Client.Refund(ctx, sns, reason); return err })
	return out, err
}

func (o *faultyOrders) States(ctx context.Context, sns []string) (out map[string]string, err error) {
	err = o.f.step(func() error { out, err = o.Client.States(ctx, sns); return err })
	return out, err
}

func (o *faultyOrders) Changed(ctx context.Context, since time.Time, cursor string) (out []core.ChangedOrder, next string, err error) {
	err = o.f.step(func() error { out, next, err = o.Client.Changed(ctx, since, cursor); return err })
	return out, next, err
}

func (o *faultyOrders) Lookup(ctx context.Context, sns []string) (out map[string]merchants.OrderDetails, err error) {
	err = o.f.step(func() error { out, err = o.Client.Lookup(ctx, sns); return err })
	return out, err
}

// broker keeps the published messages for the test.
type broker struct {
	mu   sync.Mutex
	sent []bus.Message
	down bool
}

func (b *broker) Publish(_ context.Context, m bus.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errors.New("broker is unreachable")
	}
	b.sent = append(b.sent, m)
	return nil
}

func (b *broker) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

func (b *broker) take(topic string) []bus.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var taken, rest []bus.Message
	for _, m := range b.sent {
		if m.Topic == topic {
			taken = append(taken, m)
		} else {
			rest = append(rest, m)
		}
	}
	b.sent = rest
	return taken
}

func (w *world) deductions() map[string]contract.Deduction {
	found := map[string]contract.Deduction{}
	for _, m := range w.broker.take(contract.TopicDeductions) {
		items, bad := contract.Decode[contract.Deduction](m.Body)
		require.Empty(w.t, bad)
		for _, d := range items {
			found[d.OrderSN] = d
		}
	}
	return found
}

// orderService is a fake of the order service behind a real HTTP server: an order's state decides the outcome, an
// unknown order gets a tombstone.
type orderService struct {
	url string

	mu       sync.Mutex
	now      func() time.Time
	state    map[string]string // pending, paid, closed, cancelled, refunded, tombstone
	due      map[string]time.Time
	paying   map[string]time.Time
	closes   int
	refunded []string
	down     bool
	items    map[string]contract.Reservation // contents of the orders that since lists
}

func newOrderService(t testing.TB) *orderService {
	o := &orderService{now: time.Now, state: map[string]string{}, due: map[string]time.Time{}, paying: map[string]time.Time{}, items: map[string]contract.Reservation{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /internal/v1/orders:close", o.close)
	mux.HandleFunc("POST /internal/v1/orders:refund", o.refund)
	mux.HandleFunc("POST /internal/v1/orders:lookup", o.lookup)
	mux.HandleFunc("POST /internal/v1/orders:since", o.since)
	mux.HandleFunc("GET /internal/v1/orders/{order_sn}", o.show)
	srv := httptest.NewServer(auth.Internal("a secret for tests only, of length")(mux))
	t.Cleanup(srv.Close)
	o.url = srv.URL
	return o
}

func (o *orderService) set(state string, sns ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, sn := range sns {
		o.state[sn] = state
	}
}

func (o *orderService) setDown(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

// closed returns the number of calls to close orders.
func (o *orderService) closed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closes
}

func (o *orderService) of(sn string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state[sn]
}

func (o *orderService) close(w http.ResponseWriter, r *http.Request) {
	var body struct {
		OrderSNs []string `json:"order_sns"`
		Reason   string   `json:"reason"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	o.closes++
	var results []map[string]any
	for _, sn := range body.OrderSNs {
		res := map[string]any{"order_sn": sn}
		switch state := o.state[sn]; {
		case state == "" || state == "tombstone":
			o.state[sn] = "tombstone"
			res["outcome"] = "unknown"
		case state == "closed": // without its reason
			res["outcome"] = "closed"
		case state == "cancelled":
			res["outcome"], res["reason"] = "closed", "cancelled"
		case state == "paid" || state == "refunded":
			res["outcome"] = state
		case body.Reason != "expired":
			o.state[sn] = "closed"
			res["outcome"] = "closed"
		case o.now().Before(o.due[sn]):
			res["outcome"], res["at"] = "not_due", o.due[sn]
		case o.now().Before(o.paying[sn]):
			res["outcome"], res["at"] = "paying", o.paying[sn]
		default:
			o.state[sn] = "closed"
			res["outcome"] = "closed"
		}
		results = append(results, res)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// show returns an order that order has made, or a state without a purchase as unknown.
func (o *orderService) show(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	sn := r.PathValue("order_sn")
	doc := map[string]any{"order_sn": sn, "state": "unknown", "lines": []any{}, "payments": []any{}, "refunds": []any{}, "decisions": []any{}}
	if it, known := o.items[sn]; known && o.state[sn] != "tombstone" {
		doc["user_id"], doc["activity_id"], doc["lines"] = it.UserID, it.ActivityID, it.Lines
		doc["state"], doc["currency"], doc["created_at"], doc["expires_at"] = o.state[sn], "EUR", o.now(), o.now()
		if o.state[sn] == "cancelled" {
			doc["state"], doc["close_reason"] = "closed", "cancelled"
		}
	}
	_ = json.NewEncoder(w).Encode(doc)
}

func (o *orderService) refund(w http.ResponseWriter, r *http.Request) {
	var body struct {
		OrderSNs []string `json:"order_sns"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var results []map[string]any
	for _, sn := range body.OrderSNs {
		outcome := "unknown"
		switch o.state[sn] {
		case "paid", "refunded":
			o.state[sn], outcome = "refunded", "refunded"
			o.refunded = append(o.refunded, sn)
		case "pending", "closed", "cancelled":
			outcome = "not_paid"
		}
		results = append(results, map[string]any{"order_sn": sn, "outcome": outcome})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
}

// seller returns a caller who acts for the default merchant.
func seller(user string) core.Caller {
	return core.Caller{UserID: user, MerchantID: contract.DefaultMerchant}
}

// operator returns a caller who sees the objects of all merchants and acts for none.
func operator(user string) core.Caller { return core.Caller{UserID: user, Operator: true} }

// sale publishes an activity with so many units of each of n SKUs.
func (w *world) sale(limit int64, stock ...int64) *core.Activity {
	w.t.Helper()
	a := w.draft(limit, stock...)
	a, err := w.merchants.Publish(w.ctx, seller("m"), a.ID)
	require.NoError(w.t, err)
	return a
}

func (w *world) draft(limit int64, stock ...int64) *core.Activity {
	w.t.Helper()
	p := merchants.Product{Name: "Thing"}
	for i := range stock {
		p.SKUs = append(p.SKUs, merchants.SKU{Name: fmt.Sprintf("Thing %d", i+1), ListPrice: 9900, Currency: "EUR"})
	}
	made, err := w.merchants.CreateProduct(w.ctx, seller("m"), p, nil)
	require.NoError(w.t, err)
	var items []merchants.ActivityDraftItem
	for i, n := range stock {
		items = append(items, merchants.ActivityDraftItem{SKUID: made.SKUs[i].ID, Price: 100 + int64(i), Stock: n})
	}
	a, err := w.merchants.CreateActivity(w.ctx, seller("m"), merchants.ActivityDraftRequest{
		Title: "Sale", StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour), PerUserLimit: &limit, Items: items,
	})
	require.NoError(w.t, err)
	return a
}

var lastSN = struct {
	sync.Mutex
	n int64
}{n: 1_000_000 + rand.Int64N(1_000_000_000)}

func newSN() string {
	lastSN.Lock()
	defer lastSN.Unlock()
	lastSN.n++
	return strconv.FormatInt(lastSN.n, 10)
}

// reserve makes a purchase at the gate, as seckill does.
func (w *world) reserve(a *core.Activity, user string, lines ...contract.Line) (contract.Reservation, stockgate.Outcome) {
	w.t.Helper()
	if len(lines) == 0 {
		lines = []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}
	}
	r := contract.Reservation{OrderSN: newSN(), UserID: user, ActivityID: a.ID, Lines: lines, ReservedAt: time.Now().UTC().Truncate(time.Millisecond)}
	verdicts, err := w.gate.Reserve(w.ctx, a.ID, []stockgate.Request{{OrderSN: r.OrderSN, UserID: user, Lines: lines}})
	require.NoError(w.t, err)
	return r, verdicts[0].Outcome
}

func (w *world) buy(a *core.Activity, user string, lines ...contract.Line) contract.Reservation {
	w.t.Helper()
	r, outcome := w.reserve(a, user, lines...)
	require.Equal(w.t, stockgate.Accepted, outcome)
	w.relay(a)
	return r
}

// relay acknowledges everything in the journal, as seckill's relay does after the broker confirmed it.
func (w *world) relay(a *core.Activity) {
	w.t.Helper()
	entries, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 256)
	require.NoError(w.t, err)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	if len(ids) > 0 {
		require.NoError(w.t, w.gate.Ack(w.ctx, a.ID, ids))
	}
}

func message[T contract.Item](t require.TestingT, topic string, items ...T) bus.Delivery {
	bodies, err := contract.Encode(items)
	require.NoError(t, err)
	require.Len(t, bodies, 1)
	return bus.Delivery{Message: bus.Message{Topic: topic, Body: bodies[0]}, Attempt: 1}
}

func (w *world) land(items ...contract.Reservation) {
	w.t.Helper()
	require.NoError(w.t, w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, items...)))
}

func event(r contract.Reservation, kind contract.OrderEventType) contract.OrderEvent {
	e := contract.OrderEvent{
		OrderSN: r.OrderSN, UserID: r.UserID, ActivityID: r.ActivityID, Lines: r.Lines, Type: kind, At: time.Now().UTC().Truncate(time.Millisecond),
	}
	switch kind {
	case contract.OrderCreated:
		at := e.At.Add(15 * time.Minute)
		e.ExpiresAt = &at
	case contract.OrderClosed:
		e.Reason = "expired"
	}
	return e
}

func (w *world) follow(events ...contract.OrderEvent) {
	w.t.Helper()
	require.NoError(w.t, w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, events...)))
}

func (w *world) row(sn string) ledger.Row {
	w.t.Helper()
	rows, err := w.parts.Store.Reservations(w.ctx, []string{sn})
	require.NoError(w.t, err)
	require.Contains(w.t, rows, sn)
	return rows[sn]
}

func (w *world) entry(a *core.Activity, sn string) stockgate.Entry {
	w.t.Helper()
	found, err := w.gate.Lookup(w.ctx, a.ID, []string{sn})
	require.NoError(w.t, err)
	require.Contains(w.t, found, sn)
	return found[sn]
}

func (w *world) stock(a *core.Activity) []core.Stock {
	w.t.Helper()
	now, err := w.parts.Store.AnyActivity(w.ctx, a.ID)
	require.NoError(w.t, err)
	return now.Items
}

func (w *world) left(a *core.Activity, item int) int64 {
	w.t.Helper()
	left, _, err := w.gate.UnitsLeft(w.ctx, a.ID)
	require.NoError(w.t, err)
	return left[a.Items[item].SKUID]
}

func (w *world) deadLetters(state string) []core.DeadLetter {
	w.t.Helper()
	list, err := w.parts.Store.DeadLetters(w.ctx, core.AllMerchants(), state, core.Page{Limit: 1000})
	require.NoError(w.t, err)
	return list
}

// sound checks the invariants of the database.
func (w *world) sound(a *core.Activity) {
	w.t.Helper()
	rows, err := w.parts.Store.ReservationsOfActivity(w.ctx, core.AllMerchants(), a.ID, core.ReservationFilter{}, core.Page{Limit: 100_000})
	require.NoError(w.t, err)
	type sums struct{ reserved, sold int64 }
	shelves, held := map[string]sums{}, map[string]int64{}
	for _, r := range rows {
		for _, l := range r.Lines {
			s := shelves[l.SKUID]
			switch r.State {
			case ledger.StateReserved:
				s.reserved += l.Qty
				held[r.UserID] += l.Qty
			case ledger.StateSold:
				s.sold += l.Qty
				held[r.UserID] += l.Qty
			}
			shelves[l.SKUID] = s
		}
		require.Equal(w.t, r.State == ledger.StateReserved && r.OrderCreatedAt == nil, r.RepublishAt != nil, "republish_at of %+v", r)
	}
	for _, it := range w.stock(a) {
		require.Equal(w.t, it.Total, it.Available+it.Reserved+it.Sold, "sum of %+v", it)
		require.GreaterOrEqual(w.t, it.Available, int64(0))
		require.Equal(w.t, sums{it.Reserved, it.Sold}, shelves[it.SKUID], "ledger and stock of %s", it.SKUID)
	}
	var allowances []struct {
		UserID string
		Held   int64
	}
	require.NoError(w.t, w.db.Table("allowances").Select("user_id", "held").Where("activity_id = ?", a.ID).Find(&allowances).Error)
	for _, al := range allowances {
		require.Equal(w.t, held[al.UserID], al.Held, "allowance of %s", al.UserID)
		require.LessOrEqual(w.t, al.Held, a.PerUserLimit)
		delete(held, al.UserID)
	}
	require.Empty(w.t, held, "holders without an allowance")
	w.feeds(rows)
}

// agree checks that the gate matches the ledger, for an activity with nothing in flight.
func (w *world) agree(a *core.Activity) {
	w.t.Helper()
	w.sound(a)
	v, err := w.merchants.StockView(w.ctx, core.AllMerchants(), a.ID)
	require.NoError(w.t, err)
	for _, k := range v.SKUs {
		require.NotNil(w.t, k.Gate)
		require.Zero(w.t, k.Difference, "difference of SKU %s: %+v %+v", k.SKUID, k, *k.Gate)
	}
	rows, err := w.parts.Store.ReservationsOfActivity(w.ctx, core.AllMerchants(), a.ID, core.ReservationFilter{}, core.Page{Limit: 100_000})
	require.NoError(w.t, err)
	var sns []string
	for _, r := range rows {
		sns = append(sns, r.OrderSN)
	}
	sort.Strings(sns)
	entries, err := w.gate.Lookup(w.ctx, a.ID, sns)
	require.NoError(w.t, err)
	for _, r := range rows {
		e, ok := entries[r.OrderSN]
		require.True(w.t, ok, "the gate does not hold %+v", r)
		want := map[ledger.State]stockgate.Status{ledger.StateSold: stockgate.StatusPaid, ledger.StateRejected: stockgate.StatusFailed}[r.State]
		switch {
		case r.State == ledger.StateReserved && r.OrderCreatedAt == nil:
			want = stockgate.StatusQueued
			require.True(w.t, e.Landed, "landed: %+v", r)
		case r.State == ledger.StateReserved:
			want = stockgate.StatusCreated
		case r.State == ledger.StateReleased && r.OrderCreatedAt == nil:
			want = stockgate.StatusFailed
		case r.State == ledger.StateReleased:
			want = stockgate.StatusClosed
		}
		// The end that a damaged gate showed stays, and a buyer who saw an order does not see failed.
		shown := w.shown[r.OrderSN]
		if want == stockgate.StatusFailed && e.Status == stockgate.StatusClosed && strings.ContainsAny(shown, "cx") ||
			want == stockgate.StatusClosed && e.Status == stockgate.StatusFailed && strings.Contains(shown, "f") {
			continue
		}
		require.Equal(w.t, want, e.Status, "status of %+v", r)
	}
}

func delivered(m bus.Message) bus.Delivery { return bus.Delivery{Message: m, Attempt: 1} }
