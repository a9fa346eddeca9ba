// Package seckill is the purchase path of the flash sale: it gives out paths, groups purchases into calls of the Redis
// gate, carries what the gate accepted to the message bus, and tells buyers how it ends.
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

// Deps is what the service stands on. It closes none of it.
type Deps struct {
	Redis     redis.UniversalClient
	Bus       bus.Publisher
	Telemetry *telemetry.Telemetry
	// Limits of the routes; nil means that this process counts for itself. Their components are not the service's.
	Limits *admission.Limits
	// Lease of the worker id; nil takes one in Redis and keeps it by a component of the service.
	Lease ordersn.Lease
	// Now is this machine's clock, for tests; nil means time.Now. What it is off Redis time by is found out.
	Now func() time.Time
	// HTTPClient fetches the keys of AUTH_JWKS_URL; nil means one with a time-out.
	HTTPClient *http.Client
}

// Service is the purchase path.
type Service struct {
	handler    http.Handler
	ready      func() error
	components []lifecycle.Component
}

// New puts the service together; it starts nothing and needs none of the parts to be there.
func New(cfg Config, deps Deps) (*Service, error) {
	tel := deps.Telemetry
	if deps.Now == nil {
		deps.Now = time.Now
	}
	redisGate := stockgate.New(deps.Redis, stockgate.Options{
		Timeout:    cfg.GateTimeout,
		JournalMax: cfg.JournalMax,
		ClaimAfter: cfg.JournalClaimAfter,
		OnBreaker: func(from, to string) {
			tel.Log.Warn("breaker of redis changed", "from", from, "to", to)
		},
	})
	if err := tel.ObserveBreaker("flashsale.seckill.gate.breaker", "Redis", redisGate.Breaker); err != nil {
		return nil, err
	}

	carrier, err := relay.New(gate.Journal{Redis: redisGate}, deps.Bus, tel, consumerName(), cfg.JournalMax)
	if err != nil {
		return nil, err
	}
	grouped, err := gate.New(redisGate, tel, gate.Options{
		// A little over the time of one call, which bounds itself.
		CallTimeout: cfg.GateTimeout + 250*time.Millisecond,
		CallerWait:  cfg.GateWait,
		Queue:       cfg.GateQueue,
		Accepted:    carrier.Accepted,
	})
	if err != nil {
		return nil, err
	}
	seal, err := core.NewSeal(cfg.pathSecrets()...)
	if err != nil {
		return nil, err
	}
	verifier, err := auth.NewVerifier(cfg.Auth, deps.HTTPClient)
	if err != nil {
		return nil, err
	}

	s := &Service{ready: func() error { return nil }}
	lease := deps.Lease
	if lease == nil {
		own := ordersn.NewRedisLease(deps.Redis, tel.Log)
		lease = own
		s.components = append(s.components, lifecycle.Component{Name: "worker id", Run: own.Run})
	}
	if held, ok := lease.(interface{ Held() bool }); ok {
		s.ready = func() error {
			if !held.Held() {
				return errors.New("no worker id was held yet")
			}
			return nil
		}
	}

	watch := core.NewWatch(gate.Catalogue{Redis: redisGate}, deps.Now)
	feed := core.NewFeed(grouped, cfg.StreamsMax)
	limits := deps.Limits
	if limits == nil {
		if limits, err = admission.Local(cfg.Settings, tel); err != nil {
			return nil, err
		}
	}
	surface := httpapi.Deps{
		Core: core.NewService(core.Deps{
			Gate: grouped, Watch: watch, Feed: feed, SNs: orderSNs{ordersn.NewGenerator(lease, nil)},
			Seal: seal, CallerWait: cfg.GateWait,
		}),
		Verifier:    verifier,
		Limits:      limits,
		Tel:         tel,
		OpenStreams: feed.Open,
	}
	if cfg.DevTokens {
		surface.DevToken = func(id auth.Identity, ttl time.Duration) (string, error) {
			return auth.MintFor(cfg.HS256Secret, id, ttl, cfg.Audience, cfg.Issuer)
		}
	}
	if s.handler, err = httpapi.New(surface); err != nil {
		return nil, err
	}

	// Components end in the reverse order: first the streams, then the calls of the gate, and the relay after both, so
	// that it carries what was accepted last.
	s.components = append(s.components,
		verifier.Component(tel.Log),
		lifecycle.Component{Name: "journal relay", Run: carrier.Run},
		lifecycle.Component{Name: "sales watch", Run: watch.Run},
		lifecycle.Component{Name: "gate groups", Run: func(ctx context.Context) error {
			<-ctx.Done()
			out, cancel := lifecycle.DrainContext(ctx)
			defer cancel()
			grouped.Close(out)
			return nil
		}},
		lifecycle.Component{Name: "result streams", Run: feed.Run},
	)
	return s, nil
}

// Handler serves the public routes.
func (s *Service) Handler() http.Handler { return s.handler }

// Ready tells why no callers should be sent here yet. Once a worker id was held nothing takes readiness back: while Redis
// is away, answering 503 at once is what this service is for.
func (s *Service) Ready() error { return s.ready() }

// Components are the service's loops; all of them outlive the absence of any part. Listeners belong after them.
func (s *Service) Components() []lifecycle.Component { return s.components }

// orderSNs implements core.OrderSNs.
type orderSNs struct{ *ordersn.Generator }

func (o orderSNs) Next(userID string) (string, error) {
	sn, err := o.Generator.Next(userID)
	if errors.Is(err, ordersn.ErrNoLease) {
		return "", fmt.Errorf("%w: %w", core.ErrNoLease, err)
	}
	return sn, err
}

func (orderSNs) Belongs(orderSN, userID string) bool {
	sn, err := ordersn.Parse(orderSN)
	return err == nil && sn.Gene == ordersn.Gene(userID)
}

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
