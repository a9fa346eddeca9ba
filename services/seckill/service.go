package seckill

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/gate"
	"flashsale.internal/services/seckill/internal/httpapi"
	"flashsale.internal/services/seckill/internal/relay"
)

// Deps is what the service works on. Whoever made it closes it, after the components have ended.
type Deps struct {
	Redis     redis.UniversalClient
	Bus       bus.Publisher
	Telemetry *telemetry.Telemetry
	Now       func() time.Time  // nil for time.Now. What this clock is off Redis time by is found out
	Limits    *admission.Limits // of the routes; nil for none. Their components are not the service's
	Lease     ordersn.Lease     // of the worker id; nil takes one in Redis and keeps it by a component of the service
}

// Service is the seckill service.
type Service struct {
	deps     Deps
	gate     *gate.Gate
	relay    *relay.Relay
	watch    *core.Watch
	feed     *core.Feed
	lease    ordersn.Lease
	ownLease *ordersn.RedisLease // nil if Deps has one
	verifier *auth.Verifier
	handler  http.Handler
}

// New puts the service together and starts nothing. None of its dependencies has to be there yet.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if deps.Redis == nil || deps.Bus == nil || deps.Telemetry == nil {
		return nil, errors.New("seckill: Redis, Bus and Telemetry are required")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	tel := deps.Telemetry
	verifier, err := auth.NewVerifier(cfg.Auth, nil)
	if err != nil {
		return nil, err
	}
	gates := stockgate.New(deps.Redis, stockgate.Options{
		Timeout:    cfg.GateTimeout,
		JournalMax: cfg.JournalMax,
		ClaimAfter: cfg.JournalClaimAfter,
		OnBreaker: func(from, to string) {
			tel.Log.Warn("breaker of redis changed", "from", from, "to", to)
		},
	})
	if err := tel.ObserveBreaker("flashsale.seckill.gate.breaker", "Redis", gates.Breaker); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s := &Service{deps: deps, verifier: verifier, lease: deps.Lease}
	if s.lease == nil {
		s.ownLease = ordersn.NewRedisLease(deps.Redis, tel.Log)
		s.lease = s.ownLease
	}
	if s.relay, err = relay.New(journal{gates}, deps.Bus, tel, consumerName(), cfg.JournalMax); err != nil {
		return nil, err
	}
	s.gate, err = gate.New(gates, tel, gate.Options{
		// A little over the time of one call, which bounds itself.
		CallTimeout: cfg.GateTimeout + 250*time.Millisecond,
		CallerWait:  cfg.GateWait,
		Queue:       cfg.GateQueue,
		Accepted:    s.relay.Accepted,
	})
	if err != nil {
		return nil, err
	}
	seal, err := core.NewSeal(cfg.PathSecrets...)
	if err != nil {
		return nil, err
	}
	s.watch = core.NewWatch(gate.Catalogue{Redis: gates}, deps.Now)
	s.feed = core.NewFeed(s.gate, cfg.StreamsMax)
	limits := deps.Limits
	if limits == nil {
		limits = admission.None(tel)
	}
	surface := httpapi.Deps{
		Core: core.NewService(core.Deps{
			Gate: s.gate, Watch: s.watch, Feed: s.feed, SNs: orderSNs{ordersn.NewGenerator(s.lease, nil)},
			Seal: seal, CallerWait: cfg.GateWait,
		}),
		Verifier:    verifier,
		Limits:      limits,
		Tel:         tel,
		OpenStreams: s.feed.Open,
	}
	if cfg.DevTokens {
		surface.DevToken = func(id auth.Identity, ttl time.Duration) (string, error) {
			return auth.MintFor(cfg.HS256Secret, id, ttl, cfg.Audience, cfg.Issuer)
		}
	}
	if s.handler, err = httpapi.New(surface); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler is the buyers' API.
func (s *Service) Handler() http.Handler { return s.handler }

// Ready is nil when callers may come. Once a worker id was held nothing takes readiness back: while Redis is unreachable,
// answering 503 at once is what this service is for.
func (s *Service) Ready() error {
	if held, ok := s.lease.(interface{ Held() bool }); ok && !held.Held() {
		return errors.New("no worker id was held yet")
	}
	return nil
}

// Components are the loops in the background. Each survives the absence of Redis and broker. They end in the reverse
// order: first the streams, then the calls of the gate, and the relay after both, so that it carries what was accepted
// last. Listeners belong after them.
func (s *Service) Components() []lifecycle.Component {
	var all []lifecycle.Component
	if s.ownLease != nil {
		all = append(all, lifecycle.Component{Name: "worker id", Run: s.ownLease.Run})
	}
	return append(all,
		s.verifier.Component(s.deps.Telemetry.Log),
		lifecycle.Component{Name: "journal relay", Run: s.relay.Run},
		lifecycle.Component{Name: "sales watch", Run: s.watch.Run},
		lifecycle.AtEnd("gate groups", func(ctx context.Context) error {
			s.gate.Close(ctx)
			return nil
		}),
		lifecycle.Component{Name: "result streams", Run: s.feed.Run},
	)
}

// orderSNs implements core.OrderSNs.
type orderSNs struct{ *ordersn.Generator }

func (o orderSNs) Next(userID string) (string, error) {
	sn, err := o.Generator.Next(userID)
	if errors.Is(err, ordersn.ErrNoLease) {
		return "", fmt.Errorf("%w: %w", core.ErrNoLease, err)
	}
	return sn, err
}

func (orderSNs) Belongs(orderSN, userID string) bool { return ordersn.Belongs(orderSN, userID) }

// consumerName is this process among the relays. It is new with each start: what an earlier one left behind is claimed.
func consumerName() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	host, err := os.Hostname()
	if err != nil {
		host = "seckill"
	}
	return host + "-" + hex.EncodeToString(id[:])
}
