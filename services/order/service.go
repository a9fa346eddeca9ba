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
	"flashsale.internal/pkg/idempotency"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/outbox"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/consumer"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/httpapi"
	"flashsale.internal/services/order/internal/payment/sandbox"
	"flashsale.internal/services/order/internal/publisher"
	"flashsale.internal/services/order/internal/record"
	"flashsale.internal/services/order/internal/shards"
	"flashsale.internal/services/order/internal/store"
)

// Deps is what the service works on. Whoever made it closes it, after the components have ended.
type Deps struct {
	DB        *gorm.DB
	Bus       bus.Bus
	Telemetry *telemetry.Telemetry
	Now       func() time.Time  // nil for time.Now
	Limits    *admission.Limits // of the public routes; nil for none. Their components are not the service's
	Transport http.RoundTripper // of the sandbox's callbacks; nil for the default
}

// Service is the order service.
type Service struct {
	cfg      Config
	deps     Deps
	core     *core.Service
	relay    *outbox.Relay
	waiting  *telemetry.Reading
	verifier *auth.Verifier
	public   http.Handler
	internal http.Handler
}

// New puts the service together and starts nothing. None of its parts has to be there yet.
func New(cfg Config, deps Deps) (*Service, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if deps.DB == nil || deps.Bus == nil || deps.Telemetry == nil {
		return nil, errors.New("order: DB, Bus and Telemetry are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
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
	waiting, err := tel.Reading("flashsale.order.outbox.waiting", metric.WithUnit("{item}"),
		metric.WithDescription("What was committed and waits for the broker. No value while the database does not respond."))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := errors.Join(
		tel.ObserveBreaker("flashsale.order.mysql.breaker", "MySQL", func() string { return sqldb.Breaker(deps.DB) }),
		tel.ObserveRepeats("flashsale.order.mysql.repeats", "MySQL", func() int64 { return sqldb.RepeatsLeft(deps.DB) }),
	); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Service{cfg: cfg, deps: deps, verifier: verifier, waiting: waiting}
	s.relay = outbox.NewRelay(deps.DB, deps.Bus, tel.Log)

	var providers []core.Provider
	var sandboxProvider httpapi.Sandbox // stays nil without the sandbox
	if cfg.Payments.Sandbox {
		if cfg.Payments.SandboxCallbackURL == "" {
			return nil, settings.Wrong("PAYMENTS_SANDBOX_CALLBACK_URL", "is required and not set")
		}
		box := sandbox.New(sandbox.Config{
			Secrets: cfg.Payments.SandboxSecrets, CallbackURL: cfg.Payments.SandboxCallbackURL,
			Now: deps.Now, Transport: tel.Transport(deps.Transport),
		}, store.NewSandboxRefunds(deps.DB))
		providers, sandboxProvider = append(providers, box), box
	}
	s.core = core.New(store.New(deps.DB, tel, s.relay.Wake), publisher.New(deps.Bus, tel), shards.Genes{}, rec, providers, core.Options{
		Now: deps.Now, PaymentGrace: cfg.PaymentGrace, OverdueAfter: cfg.SweepAfter, RefundAttempts: cfg.RefundAttempts,
	})
	limits := deps.Limits
	if limits == nil {
		limits = admission.None(tel)
	}
	s.public = httpapi.NewPublic(s.core, tel, verifier, sandboxProvider, limits, deps.Now)
	s.internal = httpapi.NewInternal(s.core, tel, cfg.Internal.Secret)
	return s, nil
}

// Handler is the public API: buyers and payment providers.
func (s *Service) Handler() http.Handler { return s.public }

// InternalHandler is the API for inventory. It belongs on a listener of its own, never on a public one.
func (s *Service) InternalHandler() http.Handler { return s.internal }

// Ready is nil when callers may come. It never asks the database or the broker: without them calls are answered 503,
// and taking the instance away would not help.
func (s *Service) Ready() error { return nil }

// Components are the loops in the background. Each survives the absence of database and broker.
func (s *Service) Components() []lifecycle.Component {
	log := s.deps.Telemetry.Log
	if !s.cfg.Payments.Sandbox {
		log.Warn("no payment provider is set up: orders cannot be paid")
	}
	return []lifecycle.Component{
		s.verifier.Component(log),
		{Name: "order outbox", Run: s.relay.Run},
		lifecycle.Every("order outbox count", 5*time.Second, log, func(ctx context.Context) error {
			n, _, err := outbox.Backlog(ctx, s.deps.DB)
			s.waiting.Record(n, err)
			return err
		}),
		lifecycle.Every("order closings sweep", s.cfg.SweepEvery, log, func(ctx context.Context) error {
			_, err := s.core.ResendClosings(ctx)
			return err
		}),
		lifecycle.Every("order refunds", s.cfg.RefundEvery, log, func(ctx context.Context) error {
			_, err := s.core.RefundDue(ctx)
			return err
		}),
		lifecycle.Every("order idempotency keys sweep", 10*time.Minute, log, func(ctx context.Context) error {
			_, err := idempotency.Sweep(ctx, s.deps.DB)
			return err
		}),
		{Name: "order deductions consumer", Run: s.consume},
	}
}

// consume subscribes; the deliveries end with the bus, which waits for them.
func (s *Service) consume(ctx context.Context) error {
	if err := consumer.New(s.core, s.deps.Telemetry, 0).Subscribe(s.deps.Bus, s.cfg.Consumers); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
