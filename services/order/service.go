package order

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"gorm.io/gorm"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/brokerless"
	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/outbox"
	"flashsale.internal/pkg/presence"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/consumer"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/genes"
	"flashsale.internal/services/order/internal/httpapi"
	"flashsale.internal/services/order/internal/publisher"
	"flashsale.internal/services/order/internal/record"
	"flashsale.internal/services/order/internal/store"
)

// Deps are the dependencies of the service. The caller closes them after the components have ended.
type Deps struct {
	DB        *gorm.DB
	Bus       bus.Bus
	Telemetry *telemetry.Telemetry
	Now       func() time.Time // clock of the process; nil for time.Now
	// DatabaseNow replaces the clock of the database, by which deadlines, claims and sweeps are decided. For tests; nil
	// for the database's own, which is that of the process with SQLite.
	DatabaseNow func() time.Time
	Limits      *admission.Limits // of the public routes; nil for none. The caller runs their components
	Transport   http.RoundTripper // of the sandbox's callbacks and brokerless messages; nil for the default
}

// Service is the order service.
type Service struct {
	cfg      Config
	timers   timers
	deps     Deps
	bus      *brokerless.Bus
	core     *core.Service
	contacts core.ContactUpkeep
	recorder core.Recorder
	relay    *outbox.Relay
	backlog  *telemetry.Reading // of the outbox
	waiting  *telemetry.Reading // of its oldest row
	refused  *telemetry.Reading // refunds that their provider has refused
	store    *store.Store

	comparisons *comparisons

	verifier *auth.Verifier
	presence *presence.Announcer
	clocks   *clocks.Monitor
	public   http.Handler
	internal http.Handler
}

// New returns a service. It starts nothing, and its dependencies do not have to be reachable yet.
func New(cfg Config, deps Deps) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	timers, err := cfg.timers()
	if err != nil {
		return nil, err
	}
	if deps.DB == nil || deps.Bus == nil || deps.Telemetry == nil {
		return nil, errors.New("order: DB, Bus and Telemetry are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Limits == nil {
		deps.Limits = admission.None(deps.Telemetry)
	}
	tel := deps.Telemetry
	verifier, err := auth.NewVerifier(cfg.Auth, nil)
	if err != nil {
		return nil, err
	}
	rec, err := record.New(tel)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	backlog, err := tel.Reading("flashsale.order.outbox.waiting", metric.WithUnit("{item}"),
		metric.WithDescription("Items in the outbox that are not yet published. "+
			"No value while the database does not respond."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	waiting, err := tel.Reading("flashsale.order.outbox.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest item in the outbox; 0 without one. "+
			"No value while the database does not respond."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	refused, err := tel.Reading("flashsale.order.refunds.refused", metric.WithUnit("{refund}"),
		metric.WithDescription("Refunds that their provider has refused and that wait for an operator. "+
			"No value while the database does not respond."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := errors.Join(
		presence.ObservePool(tel, "mysql", func() presence.Pool { return presence.DatabasePool(deps.DB) }),
		tel.ObserveBreaker("mysql", func() string { return sqldb.Breaker(deps.DB) }),
		tel.ObserveRepeats("mysql",
			func() int64 { return sqldb.RepeatsLeft(deps.DB) }),
	); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	sealer, err := cfg.Contacts.sealer()
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, timers: timers, deps: deps, recorder: rec, verifier: verifier, backlog: backlog, waiting: waiting,
		refused: refused,
	}
	if s.bus, err = newBus(cfg, deps); err != nil {
		return nil, err
	}
	if err := s.newClocks(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s.relay = outbox.NewRelay(deps.DB, s.bus, tel.Log, outbox.Clock(s.deps.DatabaseNow),
		outbox.CheckClocks(s.clocks.Check))

	if cfg.Payments.Has(settings.Sandbox) && cfg.Payments.SandboxCallbackURL == "" {
		return nil, settings.Wrong("PAYMENTS_SANDBOX_CALLBACK_URL", "is required and not set")
	}
	providers, sandboxProvider, err := cfg.Payments.providers(s.deps, deps.Limits)
	if err != nil {
		return nil, fmt.Errorf("payment providers: %w", err)
	}
	if s.comparisons, err = newComparisons(tel, cfg.Payments.Providers); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	orders := store.New(deps.DB, tel, s.relay.Wake, store.WithClock(s.deps.DatabaseNow))
	s.store = orders
	s.core = core.New(orders, publisher.New(s.bus, tel), genes.ByUser{}, rec, providers, sealer, core.Options{
		Now: deps.Now, PaymentGrace: cfg.PaymentGrace, OverdueAfter: timers.sweepAfter,
		ClosingsUnsent: s.bus.DelayedUnsent, CompareEvery: timers.compareEvery, CompareAfter: timers.compareAfter,
		ContactKeep: cfg.Contacts.Keep, CheckClocks: s.clocks.Check,
	})
	s.contacts = core.ContactUpkeep{Store: orders, Sealer: sealer, Keep: cfg.Contacts.Keep}
	s.presence = presence.Announce(deps.Limits.Redis(), "order", s.Ready, func(ctx context.Context) (v presence.Vitals) {
		v.AddBreaker("broker", s.bus.Breaker())
		v.AddBreaker("limits", deps.Limits.Breaker())
		v.AddDatabase(deps.DB)
		v.AddClocks(ctx, s.clocks)
		return v
	})
	s.public = httpapi.NewPublic(s.core, tel, verifier, sandboxProvider, deps.Limits)
	s.internal = httpapi.NewInternal(s.core, tel, cfg.Internal.Secrets, s.bus.Listener())
	return s, nil
}

// newBus returns the bus of the service: RocketMQ, and brokerless messages to inventory while it is unavailable.
func newBus(cfg Config, deps Deps) (*brokerless.Bus, error) {
	inventory := []string{cfg.InventoryURL}
	return brokerless.New(brokerless.Config{
		After: cfg.Brokerless.After, Secrets: cfg.Internal.Secrets,
		Consumers: map[string][]string{
			contract.TopicOrderEvents: inventory,
			contract.TopicOrderClose:  inventory,
			contract.TopicDeadLetters: inventory,
		},
		SecondPath: []string{contract.TopicOrderClose}, // the sweep sends the closings of overdue orders
	}, deps.Bus, deps.Telemetry, deps.Transport)
}

// newClocks makes the monitor of the clocks. SQLite is part of the process, and has its clock.
func (s *Service) newClocks() (err error) {
	var measured []clocks.Clock
	if s.deps.DatabaseNow == nil && sqldb.IsSQLite(s.deps.DB) {
		s.deps.DatabaseNow = s.deps.Now
	} else {
		measured = append(measured, clocks.Database(func(ctx context.Context) (time.Time, error) {
			return sqldb.Now(s.deps.DB.WithContext(ctx), s.deps.DatabaseNow)
		}))
	}
	if rdb := s.deps.Limits.Redis(); rdb != nil {
		measured = append(measured, clocks.Redis(rdb))
	}
	s.clocks, err = clocks.New(s.deps.Telemetry, s.deps.Now, measured...)
	return err
}

// Handler returns the public API for buyers and payment providers.
func (s *Service) Handler() http.Handler { return s.public }

// InternalHandler returns the API for inventory, with the route of brokerless messages. Serve it on a separate
// listener, never on a public one.
func (s *Service) InternalHandler() http.Handler { return s.internal }

// Ready returns nil: the service is always ready. It does not check the database or the broker. Without them calls get
// 503, and taking the instance out of rotation would not help.
func (s *Service) Ready() error { return nil }

// compareTimeout bounds the comparisons that are due in one process. One that takes longer never ends: the alert about
// the last completed one fires.
const compareTimeout = 2 * time.Hour

// contactSweepEvery is the interval of the sweep that deletes old contacts.
const contactSweepEvery = time.Minute

// Components returns the background loops. Each keeps running while the database or the broker is unavailable.
func (s *Service) Components() []lifecycle.Component {
	log := s.deps.Telemetry.Log
	if len(s.cfg.Payments.Providers) == 0 {
		log.Warn("no payment provider is configured: orders cannot be paid")
	}
	return []lifecycle.Component{
		s.verifier.Component(log),
		s.presence.Component(),
		s.clocks.Component("order"),
		{Name: "order outbox", Run: s.relay.Run},
		lifecycle.Every("order outbox count", 5*time.Second, log, func(ctx context.Context) error {
			n, oldest, err := outbox.Backlog(ctx, s.deps.DB)
			age := time.Duration(0)
			if !oldest.IsZero() {
				age = max(0, s.deps.Now().Sub(oldest))
			}
			s.backlog.Record(n, err)
			s.waiting.Record(int64(age/time.Second), err)
			return err
		}),
		lifecycle.Every("order refused refunds count", 5*time.Second, log, func(ctx context.Context) error {
			n, err := s.store.RefusedRefunds(ctx)
			s.refused.Record(n, err)
			return err
		}),
		lifecycle.Every("order closings sweep", s.timers.sweepEvery, log, s.clocks.Gate(func(ctx context.Context) error {
			_, err := s.core.ResendClosings(ctx)
			return err
		})),
		lifecycle.Every("order payments of closed orders", s.timers.refundEvery, log, s.clocks.Gate(func(ctx context.Context) error {
			_, err := s.core.CancelDue(ctx)
			return err
		})),
		lifecycle.Every("order refunds", s.timers.refundEvery, log, s.clocks.Gate(func(ctx context.Context) error {
			_, err := s.core.RefundDue(ctx)
			return err
		})),
		s.readComparisons(),
		lifecycle.EveryWithin("order payment comparison", min(time.Minute, s.timers.compareEvery), compareTimeout, log,
			s.clocks.Gate(s.core.ComparePayments)),
		lifecycle.Every("order contacts sweep", contactSweepEvery, log, s.clocks.Gate(func(ctx context.Context) error {
			n, err := s.contacts.Sweep(ctx)
			s.recorder.ContactsDeleted(ctx, n)
			return err
		})),
		lifecycle.Every("order idempotency keys sweep", 10*time.Minute, log, s.clocks.Gate(func(ctx context.Context) error {
			_, err := idempotency.Sweep(ctx, s.deps.DB)
			return err
		})),
		{Name: "order deductions consumer", Run: s.consume},
	}
}

// consume subscribes and waits for the end of ctx. Deliveries end when the bus closes, which waits for them.
func (s *Service) consume(ctx context.Context) error {
	if err := consumer.New(s.core, s.deps.Telemetry, 0).Subscribe(s.bus, s.cfg.Consumers); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
