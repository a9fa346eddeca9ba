package inventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"gorm.io/gorm"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/brokerless"
	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/presence"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/board"
	"flashsale.internal/services/inventory/internal/consumer"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gate"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/httpapi"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/orders"
	"flashsale.internal/services/inventory/internal/publisher"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/record"
	"flashsale.internal/services/inventory/internal/redisless"
	"flashsale.internal/services/inventory/internal/restore"
	"flashsale.internal/services/inventory/internal/store"
	"flashsale.internal/services/inventory/internal/sweep"
	"flashsale.internal/services/inventory/internal/webhooks"
)

// Deps are the dependencies of the service. Their owner closes them after the components have ended.
type Deps struct {
	DB        *gorm.DB
	Redis     redis.UniversalClient
	Bus       bus.Bus
	Telemetry *telemetry.Telemetry
	Now       func() time.Time // clock of the process; nil for time.Now
	// DatabaseNow replaces the clock of the database, by which claims, sweeps and ages of rows are decided. For tests; nil
	// for the database's own, which is that of the process with SQLite.
	DatabaseNow func() time.Time
	// Random replaces the source of random numbers for ids, for simulations that repeat: Random(n) is at least 0 and less
	// than n. It is called by one goroutine at a time. nil for math/rand.
	Random    func(n int64) int64
	Limits    *admission.Limits // of the routes; nil for none. Their owner runs their components
	Transport http.RoundTripper // of the calls to the order service, brokerless messages included; nil for the default
	// Endpoints replaces the connections to the endpoints of merchants, for simulations; nil for those to the addresses that
	// WEBHOOK_NETWORKS and the public network admit.
	Endpoints http.RoundTripper
}

// Service is the inventory service.
type Service struct {
	cfg        Config
	timers     timers
	deps       Deps
	bus        *brokerless.Bus
	store      *store.Store
	gate       *gate.Gate
	orders     *orders.Client
	incidents  *core.Incidents
	watch      *redisless.Watch
	syncer     *gates.Syncer
	core       *core.Service
	merchants  *merchants.Service
	webhooks   *webhooks.Service
	redisless  *redisless.Service
	reconciler *reconcile.Reconciler
	board      *board.Board
	presence   *presence.Announcer
	locker     *lock.Locker
	clocks     *clocks.Monitor
	recorder   *record.Recorder
	verifier   *auth.Verifier
	handler    http.Handler
	internal   http.Handler

	// scannedAlone is when a scan for webhooks began without a lock, by the goroutine that scans.
	scannedAlone time.Time
}

// New composes the service and starts nothing. Its dependencies may still be unreachable.
func New(cfg Config, deps Deps) (*Service, error) {
	settings.FillDefaults(&cfg)
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	timers, err := cfg.timers()
	if err != nil {
		return nil, err
	}
	if deps.DB == nil || deps.Redis == nil || deps.Bus == nil || deps.Telemetry == nil {
		return nil, errors.New("inventory: DB, Redis, Bus and Telemetry are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	tel := deps.Telemetry
	verifier, err := auth.NewVerifier(cfg.Auth, nil)
	if err != nil {
		return nil, err
	}
	system := "mysql"
	if sqldb.IsSQLite(deps.DB) {
		system = "sqlite"
	}
	recorder, err := record.New(tel, system)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Service{cfg: cfg, timers: timers, deps: deps, recorder: recorder, verifier: verifier}
	if s.bus, err = newBus(cfg, deps); err != nil {
		return nil, err
	}
	stock := stockgate.New(deps.Redis, stockgate.Options{OnBreaker: func(from, to string) {
		tel.Log.Warn("breaker of the gate changed", "from", from, "to", to)
	}})
	orderService := orders.New(cfg.OrderURL, cfg.Internal.Secrets, tel.Transport(deps.Transport))
	if err := errors.Join(
		tel.ObserveBreaker("order", orderService.Breaker),
		tel.ObserveBreaker("order_lookups", orderService.LookupBreaker),
		tel.ObserveBreaker("mysql", func() string { return sqldb.Breaker(deps.DB) }),
		tel.ObserveRepeats("mysql", func() int64 { return sqldb.RepeatsLeft(deps.DB) }),
		tel.ObserveBreaker("redis", stock.Breaker),
		presence.ObservePool(tel, "mysql", func() presence.Pool { return presence.DatabasePool(deps.DB) }),
		presence.ObservePool(tel, "redis", func() presence.Pool { return presence.RedisPool(deps.Redis) }),
	); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := s.newClocks(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s.locker = newLocker(deps.Redis, tel.Log)
	s.store = store.New(deps.DB, store.WithClock(s.deps.DatabaseNow), store.WithRandom(deps.Random))
	s.gate, s.orders = gate.New(stock), orderService
	timing := cfg.timing(timers)
	s.incidents, s.watch = core.NewIncidents(recorder, deps.Now), redisless.NewWatch(s.store, s.gate)
	guard := core.Guard{Store: s.store, Watch: s.watch}
	s.syncer = gates.New(gates.Deps{
		Activities: s.store, Rows: s.store, Confirmations: s.store, Adjustments: s.store, Epochs: s.store, Gate: s.gate,
		Guard: guard, Recorder: recorder, Incidents: s.incidents, CheckClocks: s.clocks.Check, Window: timing.ResettleWindow,
		Pause: timing.Pause, Locks: locks{s.locker},
	})
	s.core = core.New(core.Deps{
		Store: s.store, DeadLetters: s.store, Gate: s.gate, Pub: publisher.New(s.bus, tel), Orders: orderService,
		Recorder: recorder, Gates: s.syncer, Incidents: s.incidents, Guard: guard, HoldBack: redisless.HoldBack, Now: deps.Now,
		Timing: timing,
	})
	s.merchants = merchants.New(merchants.Deps{
		Activities: s.store, Products: s.store, Rows: s.store, Changed: s.store, History: s.store, Gate: s.gate, Gates: s.syncer,
		Ledger: s.core, Guard: guard, Orders: orderService, Refunds: orderService, Overview: s.store, Profiles: s.store,
		Recorder: recorder, Now: deps.Now, Pause: timing.Pause, Quotas: merchants.Quotas{Activities: cfg.MaxActivities, SKUs: cfg.MaxSKUs},
		Payments: merchants.Payments{Stripe: cfg.Payments.Has(settings.Stripe), Rate: int64(cfg.PaymentRate.Rate)},
	})
	if s.webhooks, err = s.newWebhooks(); err != nil {
		return nil, err
	}
	s.redisless = redisless.New(redisless.Deps{
		Sales: s.store, Rows: s.store, Inventory: s.core, Gates: s.syncer, Watch: s.watch, Recorder: recorder,
		Incidents: s.incidents, RepublishAfter: timing.RepublishAfter,
	})
	s.reconciler = reconcile.New(reconcile.Deps{
		Activities: s.store, Rows: s.store, Adjustments: s.store, Imports: s.store, Gate: s.gate, Repairs: s.gate,
		Gates: s.syncer, Locks: locks{s.locker}, Recorder: recorder, Incidents: s.incidents, Epochs: s.core, Now: deps.Now,
		Config: timers.reconcile,
	})
	limits := deps.Limits
	if limits == nil {
		limits = admission.None(tel)
	}
	s.board = board.New(board.Deps{
		Gate: s.gate, Ledger: s.merchants, Redisless: s.redisless, Now: deps.Now, Log: tel.Log,
	}, board.DefaultConfig())
	if err := errors.Join(tel.ObserveStreams(s.board.Open), s.observeModes()); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s.presence = presence.Announce(limits.Redis(), "inventory", s.Ready, func(ctx context.Context) (v presence.Vitals) {
		v.AddBreaker("broker", s.bus.Breaker())
		v.AddBreaker("gate", stock.Breaker())
		v.AddBreaker("orders", orderService.Breaker())
		v.AddBreaker("order lookups", orderService.LookupBreaker())
		v.AddBreaker("limits", limits.Breaker())
		v.AddRedis(deps.Redis)
		v.AddDatabase(deps.DB)
		v.AddClocks(ctx, s.clocks)
		return v
	})
	s.handler = httpapi.NewMerchant(httpapi.Deps{
		Core: s.core, Merchants: s.merchants, Webhooks: s.webhooks, Reconciler: s.reconciler, Board: s.board,
		Presence: s.presence, Tel: tel, Verifier: verifier, Limits: limits, Transient: sqldb.IsTransient, Now: deps.Now,
	})
	s.internal = httpapi.NewInternal(s.redisless, tel, cfg.Internal.Secrets, s.bus.Listener(), sqldb.IsTransient)
	return s, nil
}

// newBus returns the bus of the service: RocketMQ, and brokerless messages to order while it is unavailable. An
// operator's replay of a dead letter, and closings, go to the handlers of this process then.
func newBus(cfg Config, deps Deps) (*brokerless.Bus, error) {
	return brokerless.New(brokerless.Config{
		After: cfg.Brokerless.After, Secrets: cfg.Internal.Secrets,
		Consumers: map[string][]string{
			contract.TopicDeductions:   {cfg.OrderURL},
			contract.TopicReservations: {brokerless.Self},
			contract.TopicOrderEvents:  {brokerless.Self},
			contract.TopicOrderClose:   {brokerless.Self},
			contract.TopicDeadLetters:  {brokerless.Self},
		},
		SecondPath: []string{contract.TopicOrderClose}, // order sends the closings of overdue orders
	}, deps.Bus, deps.Telemetry, deps.Transport)
}

// newClocks makes the monitor of the clocks. SQLite is part of the process, and has its clock.
func (s *Service) newClocks() (err error) {
	measured := []clocks.Clock{clocks.Redis(s.deps.Redis)}
	if s.deps.DatabaseNow == nil && sqldb.IsSQLite(s.deps.DB) {
		s.deps.DatabaseNow = s.deps.Now
	} else {
		measured = append(measured, clocks.Database(func(ctx context.Context) (time.Time, error) {
			return sqldb.Now(s.deps.DB.WithContext(ctx), s.deps.DatabaseNow)
		}))
	}
	s.clocks, err = clocks.New(s.deps.Telemetry, s.deps.Now, measured...)
	return err
}

// observeModes exports the number of activities with a degraded sale by mode.
func (s *Service) observeModes() error {
	_, err := s.deps.Telemetry.Meter.Int64ObservableGauge("flashsale.inventory.modes", metric.WithUnit("{activity}"),
		metric.WithDescription("Activities that have a degraded sale, by mode: gate, direct or returning."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for _, mode := range []contract.SaleMode{contract.ModeGate, contract.ModeRedisless, contract.ModeReturning} {
				o.Observe(s.watch.Count(mode), metric.WithAttributes(attribute.String("flashsale.mode", string(mode))))
			}
			return nil
		}))
	return err
}

// Handler returns the handler of the merchants' API.
func (s *Service) Handler() http.Handler { return s.handler }

// InternalHandler returns the handler of messages that arrive by a call, and of sales without Redis. Serve it on a
// separate listener, never on a public one.
func (s *Service) InternalHandler() http.Handler { return s.internal }

// Ready returns nil: the service takes calls from its start. It does not check the database, Redis or the broker.
// Without them calls get 503, and removing the instance would not help.
func (s *Service) Ready() error { return nil }

const (
	cleanupEvery         = time.Minute // interval of the deletion of old gate entries, gates and Idempotency-Keys
	deadLetterCountEvery = 5 * time.Second
)

// Components returns the background loops. Each survives the absence of database, Redis, broker and order service.
// The sweeps and the gate controller run in one instance at a time, only to save work; while Redis has reached
// maxmemory, they run in each instance.
func (s *Service) Components() []lifecycle.Component {
	log := s.deps.Telemetry.Log
	aloneOrWoken := func(
		name string, interval time.Duration, wake <-chan struct{}, round func(ctx context.Context) error,
	) lifecycle.Component {
		return lifecycle.EveryOrWoken("inventory "+name, interval, wake, log, func(ctx context.Context) error {
			err := s.locker.Do(ctx, "inventory "+name, func(ctx context.Context, _ int64) error { return round(ctx) })
			if errors.Is(err, lock.ErrNotObtained) {
				return nil
			}
			return err
		})
	}
	alone := func(name string, interval time.Duration, round func(ctx context.Context) error) lifecycle.Component {
		return aloneOrWoken(name, interval, nil, round)
	}
	controller := s.controller()
	importer := restore.NewImporter(restore.Deps{
		Epochs: s.store, Tables: s.store, Entries: s.gate, Gate: s.gate, Orders: s.orders, Gates: s.syncer,
		Inventory: s.core, Recorder: s.recorder, Incidents: s.incidents, Now: s.deps.Now,
	})
	sweeps, svc, incidents := s.timers.sweeps, s.core, s.incidents
	orderSweep := sweep.NewOrders(sweep.OrdersDeps{
		Store: s.store, Inventory: svc, Recorder: s.recorder, Incidents: incidents, BrokerlessFor: s.bus.BrokerlessFor,
		Config: sweeps.OrdersConfig,
	})
	overdueSweep := sweep.NewOverdue(sweep.OverdueDeps{
		Store: s.store, Inventory: svc, Recorder: s.recorder, Incidents: incidents, Held: s.bus.DelayedUnsent,
		Config: sweeps.OverdueConfig,
	})
	journalSweep := sweep.NewJournal(sweep.JournalDeps{
		Store: s.store, Gate: s.gate, Gates: s.syncer, Recorder: s.recorder, Incidents: incidents,
		BrokerlessFor: s.bus.BrokerlessFor, Config: sweeps.JournalConfig,
	})
	adjustmentSweep := sweep.NewAdjustments(sweep.AdjustmentsDeps{
		Store: s.store, Gates: s.syncer, Config: sweeps.AdjustmentsConfig,
	})
	return []lifecycle.Component{
		s.verifier.Component(log),
		s.presence.Component(),
		{Name: "inventory builds of gates", Run: s.syncer.Run}, // before the loops that begin them: it ends after them
		s.clocks.Component("inventory"),
		{Name: "inventory deductions of redisless sales", Run: s.publishLater},
		{Name: "inventory gate watch", Run: s.watchGates},
		alone("gate controller", s.timers.keepEvery, s.clocks.Gate(controller.EnsureGates)),
		alone("import", s.timers.keepEvery, s.clocks.Gate(importer.Run)),
		aloneOrWoken("order sweep", s.timers.sweepEvery, s.bus.Switched(), s.clocks.Gate(orderSweep.Run)),
		alone("overdue sweep", s.timers.sweepEvery, s.clocks.Gate(overdueSweep.Run)),
		aloneOrWoken("journal sweep", s.timers.sweepEvery, s.bus.Switched(), s.clocks.Gate(journalSweep.Run)),
		alone("adjustment sweep", s.timers.sweepEvery, s.clocks.Gate(adjustmentSweep.Run)),
		// each activity under its own lock
		lifecycle.Every("inventory reconciler", s.timers.reconcileEvery, log, s.clocks.Gate(s.reconciler.ReconcileAll)),
		alone("tidying", cleanupEvery, s.clocks.Gate(func(ctx context.Context) error {
			return errors.Join(controller.TrimGates(ctx), s.store.SweepKeys(ctx), s.webhooks.Tidy(ctx))
		})),
		lifecycle.Every("inventory dead letter count", deadLetterCountEvery, log, s.countDeadLetters),
		lifecycle.Every("inventory webhook scan", webhookScanEvery, log, s.clocks.Gate(s.scanForWebhooks)),
		{Name: "inventory webhooks", Run: s.sendWebhooks},
		{Name: "inventory consumers", Run: s.consume},
		{Name: "inventory boards", Run: s.board.Run},
	}
}

func (s *Service) controller() *gates.Controller {
	return gates.NewController(gates.ControllerDeps{
		Syncer: s.syncer, Registry: s.gate, Redis: s.gate, Modes: s.redisless, Inventory: s.core, Now: s.deps.Now,
	})
}

// publishLater publishes the deductions of redisless purchases. At the end it has the time of the shutdown for what is
// queued.
func (s *Service) publishLater(ctx context.Context) error {
	drain, cancel := lifecycle.DrainContext(ctx)
	defer cancel()
	return s.redisless.PublishLater(ctx, drain)
}

// watchGates reads the gates of the activities with a degraded sale until ctx ends.
func (s *Service) watchGates(ctx context.Context) error {
	var failures lifecycle.Failures
	return s.watch.Run(ctx, func(err error) { failures.Observe(ctx, s.deps.Telemetry.Log, "inventory gate watch", err) })
}

// countDeadLetters records what operators are warned of and scale by: the open dead letters and the next start.
func (s *Service) countDeadLetters(ctx context.Context) error {
	n, err := s.store.CountOpenDeadLetters(ctx)
	s.recorder.OpenDeadLetters(n, err)
	at, startErr := s.store.NextStart(ctx)
	s.recorder.NextStart(at, startErr)
	return errors.Join(err, startErr)
}

// newLocker returns the locker of the rounds and reconciliations. They only change what exists or free memory, so they
// do not end when Redis has no memory for a lock.
func newLocker(rdb redis.UniversalClient, log *slog.Logger, opts ...lock.Option) *lock.Locker {
	return lock.New(rdb, log, append(opts, lock.RunAtFullMemory())...)
}

// locks implements reconcile.Locks and gates.Locks.
type locks struct{ locker *lock.Locker }

func (l locks) Do(ctx context.Context, name string, work func(ctx context.Context) error) error {
	begun := false
	err := l.locker.Do(ctx, name, func(ctx context.Context, _ int64) error {
		begun = true
		return work(ctx)
	})
	switch {
	case errors.Is(err, lock.ErrNotObtained):
		return fmt.Errorf("%w: %w", reconcile.ErrLockHeld, err)
	case err != nil && (!begun || errors.Is(err, lock.ErrLost)):
		return fmt.Errorf("%w: %w", core.ErrGateUnavailable, err) // the same Redis
	}
	return err
}

// DoWithin implements gates.Locks. It waits for a lock that is held, and not for locks that are unavailable.
func (l locks) DoWithin(
	ctx context.Context, wait time.Duration, name string, work func(ctx context.Context) error,
) error {
	run := func(ctx context.Context, _ int64) error { return work(ctx) }
	err := l.locker.Do(ctx, name, run)
	if errors.Is(err, lock.ErrNotObtained) {
		err = l.locker.DoWithin(ctx, wait, name, run)
	}
	switch {
	case errors.Is(err, lock.ErrUnavailable):
		return fmt.Errorf("%w: %w", gates.ErrLocksUnavailable, err)
	case errors.Is(err, lock.ErrNotObtained), errors.Is(err, lock.ErrLost):
		return fmt.Errorf("%w: %w", core.ErrGateUnavailable, err)
	}
	return err
}

// consume subscribes to the topics. Deliveries end with the bus, which waits for them.
func (s *Service) consume(ctx context.Context) error {
	if err := consumerOf(s).Subscribe(s.bus, s.cfg.Consumers); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func consumerOf(s *Service) *consumer.Consumer {
	return consumer.New(s.core, s.deps.Telemetry, s.deps.Now)
}
