package seckill

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/brokerless"
	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/presence"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/stockgate/counting"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/counts"
	"flashsale.internal/services/seckill/internal/gate"
	"flashsale.internal/services/seckill/internal/grouping"
	"flashsale.internal/services/seckill/internal/httpapi"
	"flashsale.internal/services/seckill/internal/inventory"
	"flashsale.internal/services/seckill/internal/pages"
	"flashsale.internal/services/seckill/internal/priority"
	"flashsale.internal/services/seckill/internal/redisless"
	"flashsale.internal/services/seckill/internal/relay"
	"flashsale.internal/services/seckill/internal/room"
	"flashsale.internal/services/seckill/internal/signin"
	"flashsale.internal/services/seckill/internal/suspects"
	"flashsale.internal/web"
)

// Deps are the dependencies of the service. The caller closes them after the components have ended.
type Deps struct {
	Redis     redis.UniversalClient
	Bus       bus.Publisher
	Telemetry *telemetry.Telemetry
	Now       func() time.Time  // nil means time.Now; the service measures its offset to Redis time
	Limits    *admission.Limits // of the routes; nil means none. The caller runs their components
	// Lease is the lease of the worker id, a part of each order_sn. nil means one in Redis that a component of the
	// service renews.
	Lease ordersn.Lease
	// Transport carries brokerless messages; nil means one of its own.
	Transport http.RoundTripper
}

// Service is the seckill service.
type Service struct {
	deps Deps
	bus  *brokerless.Publisher
	// A purchase passes three layers: purchases decides by the mode of the sale whether inventory or the gate reserves,
	// sharedCalls group the purchases of many callers, and *stockgate.Gate runs the script.
	purchases   *redisless.Switch
	sharedCalls *gate.SharedCalls
	watch       *redisless.Watch
	client      *inventory.Client
	relay       *relay.Relay
	priority    *priority.Controller
	memory      *gate.MemoryWatch
	sales       *core.SaleCache
	rooms       *room.RedisStore
	// roomCache serves requests; roomControl moves the rooms on while this process holds the lock.
	roomCache   *room.Cache
	roomControl *room.Controller
	feed        *core.Feed
	counts      *counts.Recorder
	suspects    *suspects.Recorder
	lease       ordersn.Lease
	ownLease    *ordersn.TermLease // nil if Deps.Lease is set
	// redislessLease is used while Redis is unavailable; nil if Deps.Lease is set.
	redislessLease *ordersn.TermLease
	verifier       *auth.Verifier
	presence       *presence.Announcer
	clocks         *clocks.Monitor
	signIn         *signin.SignIn
	tickets        *room.Tickets
	challenges     *challenge.Challenges
	handler        http.Handler
}

// New composes the service and starts nothing. Its dependencies need not be reachable yet.
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
	if deps.Limits == nil {
		deps.Limits = admission.None(deps.Telemetry)
	}
	s := &Service{deps: deps, lease: deps.Lease}
	if s.lease == nil {
		s.ownLease = ordersn.NewRedisLease(deps.Redis, deps.Telemetry.Log)
		s.lease = s.ownLease
	}
	s.client = inventory.New(cfg.InventoryURL, cfg.Internal.Secrets, deps.Transport)
	var err error
	if s.verifier, err = auth.NewVerifier(cfg.Auth, nil); err != nil {
		return nil, err
	}
	if s.bus, err = newBus(cfg, deps); err != nil {
		return nil, err
	}
	gates, err := newGates(cfg, deps)
	if err != nil {
		return nil, err
	}
	if err := s.newLoops(cfg, gates); err != nil {
		return nil, err
	}
	if s.clocks, err = clocks.New(deps.Telemetry, deps.Now, clocks.Redis(deps.Redis)); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s.presence = presence.Announce(deps.Limits.Redis(), "seckill", s.Ready, func(ctx context.Context) (v presence.Vitals) {
		v.AddBreaker("broker", s.bus.Breaker())
		v.AddBreaker("gate", gates.Breaker())
		v.AddBreaker("limits", deps.Limits.Breaker())
		if state, ok := s.challenges.Breaker(); ok {
			v.AddBreaker("challenge provider", state)
		}
		v.AddRedis(deps.Redis)
		v.AddClocks(ctx, s.clocks)
		return v
	})
	if s.handler, err = s.newHandler(cfg, gate.Catalogue{Redis: gates}); err != nil {
		return nil, err
	}
	return s, nil
}

// newBus returns the publisher of the relay: RocketMQ, and brokerless messages to inventory while it is unavailable.
func newBus(cfg Config, deps Deps) (*brokerless.Publisher, error) {
	return brokerless.NewPublisher(brokerless.Config{
		After: cfg.Brokerless.After, Secrets: cfg.Internal.Secrets,
		Consumers: map[string][]string{contract.TopicReservations: {cfg.InventoryURL}},
	}, deps.Bus, deps.Telemetry, deps.Transport)
}

// newGates returns the gates in Redis, with a metric and a log message for their breaker.
func newGates(cfg Config, deps Deps) (*stockgate.Gate, error) {
	timers, err := cfg.timers()
	if err != nil {
		return nil, err
	}
	gates := stockgate.New(deps.Redis, stockgate.Options{
		Timeout:       cfg.GateTimeout,
		JournalMax:    cfg.JournalMax,
		MemoryReserve: cfg.MemoryReserve,
		WaitReplicas:  cfg.WaitReplicas,
		ClaimAfter:    timers.claimAfter,
		OnBreaker: func(from, to string) {
			deps.Telemetry.Log.Warn("redis breaker changed state", "from", from, "to", to)
		},
	})
	if err := errors.Join(
		deps.Telemetry.ObserveBreaker("redis", gates.Breaker),
		presence.ObservePool(deps.Telemetry, "redis", func() presence.Pool { return presence.RedisPool(deps.Redis) }),
	); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return gates, nil
}

// newLoops creates the relay, the priority of buyers and landing, the grouped calls of the gate, the cached sales and the
// event streams.
func (s *Service) newLoops(cfg Config, gates *stockgate.Gate) (err error) {
	tel := s.deps.Telemetry
	if s.priority, err = priority.New(backlog{gates}, tel, cfg.JournalMax); err != nil {
		return err
	}
	s.relay, err = relay.New(journal{gates}, s.bus, tel, consumerName(), s.priority.YieldToBuyers)
	if err != nil {
		return err
	}
	if s.memory, err = gate.NewMemoryWatch(gates, tel); err != nil {
		return err
	}
	catalogue := gate.Catalogue{Redis: gates}
	if s.watch, err = redisless.NewWatch(s.client, catalogue, tel); err != nil {
		return err
	}
	if s.ownLease != nil {
		s.redislessLease = ordersn.NewLease(inventory.Workers{Client: s.client, Holders: s.watch.Holders}, tel.Log, s.watch.Redisless)
	}
	if err := s.observeAccepted(); err != nil {
		return err
	}
	bounds := grouping.Bounds{
		// stockgate bounds each call by GateTimeout; this bound is a little higher.
		CallTimeout: cfg.GateTimeout + 250*time.Millisecond,
		CallerWait:  cfg.GateWait,
		Queue:       cfg.GateQueue,
	}
	s.rooms = room.NewRedisStore(gates, bounds)
	if s.roomCache, err = room.NewCache(s.rooms, s.watch.RoomPace, tel, s.deps.Now); err != nil {
		return err
	}
	var beacon room.Beacon
	if cfg.DrawBeacon != "" {
		beacon = room.NewDrand(cfg.DrawBeacon)
	}
	s.roomControl, err = room.New(room.Deps{
		Beacon: beacon,
		Rooms:  s.rooms, Locks: lock.New(s.deps.Redis, tel.Log), Now: s.deps.Now,
		List: func(ctx context.Context) ([]string, error) { return catalogue.Rooms(ctx, s.sales.Now(ctx)) },
	}, tel)
	if err != nil {
		return err
	}
	s.sharedCalls, err = gate.New(gates, tel, gate.Options{
		Bounds: bounds,
		Keeps:  s.watch.Keeps,
		Kept:   s.watch.Accepted,
		Accepted: func(activityID string, n int) {
			s.priority.Accepted(n)
			s.relay.Accepted(activityID)
		},
		Waited: func(n int, mean time.Duration) {
			s.priority.Waited(n, mean)
			s.roomControl.Waited(n, mean)
		},
		Delay: s.priority.AcceptDelay,
	})
	if err != nil {
		return err
	}
	s.purchases = redisless.NewSwitch(s.sharedCalls, s.watch, cfg.GateWait, cfg.GateQueue)
	s.sales = core.NewSaleCache(redisless.Catalogue{Catalogue: catalogue, Watch: s.watch}, s.deps.Now)
	s.feed = core.NewFeed(s.purchases, cfg.StreamsMax)
	source := strings.ToLower(rand.Text())
	s.counts = counts.NewRecorder(gates, counting.Options{
		Source: source, Known: s.sales.Known, Now: s.sales.Now, Log: tel.Log,
	})
	s.suspects = suspects.NewRecorder(gates, counting.Options{
		Source: source, Known: s.sales.Known, Now: s.sales.Now, Log: tel.Log,
	})
	return tel.ObserveStreams(s.feed.Open)
}

// newHandler returns the handler of the buyers' API, the pages and the sign-in.
func (s *Service) newHandler(cfg Config, catalogue gate.Catalogue) (http.Handler, error) {
	seal, err := core.NewSeal(cfg.PathSecrets...)
	if err != nil {
		return nil, err
	}
	s.tickets = room.NewTickets(s.rooms, s.roomCache, s.sales, seal)
	s.challenges, err = challenge.New(challenge.Deps{
		Settings: cfg.Challenges, Host: cfg.publicHost(), Secrets: cfg.PathSecrets, Sales: s.sales, CheckTicket: s.tickets.Check,
		HasClicks: func(ctx context.Context) (bool, error) { return catalogue.Clicks(ctx, s.sales.Now(ctx)) },
		Redis:     s.deps.Limits.Redis(), Transport: s.deps.Transport,
	}, seal, s.deps.Telemetry)
	if err != nil {
		return nil, err
	}
	s.signIn, err = signin.New(cfg.OIDC, cfg.PublicURL, cfg.Auth, s.deps.Limits, s.deps.Telemetry)
	if err != nil {
		return nil, err
	}
	shown, err := pages.New(web.FS(), cfg.imageSources(), cfg.Challenges.Origins())
	if err != nil {
		return nil, err
	}
	routes := httpapi.Deps{
		Core: core.NewService(core.Deps{
			Purchases: s.purchases, Sales: s.sales, Feed: s.feed, SNs: s.orderSNs(), Seal: seal,
			AdmitPath: s.watch.AdmitPath, CallerWait: cfg.GateWait,
		}),
		Tickets:    s.tickets,
		Challenges: s.challenges,
		Verifier:   s.verifier,
		Limits:     s.deps.Limits,
		Tel:        s.deps.Telemetry,
		Counts:     s.counts,
		Suspects:   s.suspects,
		Shed: func() {
			s.roomControl.Shed()
			s.challenges.Shed()
		},
		Config: cfg.pagesConfig(s.signIn.Method()),
		Mounts: []func(chi.Router){shown.Mount, s.signIn.Mount},
	}
	if cfg.DevTokens {
		routes.DevToken = func(id auth.Identity, ttl time.Duration) (string, error) {
			ttl = min(ttl, cfg.Auth.WithDefaults().MaxLife)
			return auth.MintFor(cfg.HS256Secrets[0], id, ttl, cfg.Audience, cfg.Issuer)
		}
	}
	return httpapi.New(routes)
}

// orderSNs returns the order_sns of this process: with a worker id of Redis, or of inventory while Redis is unavailable.
func (s *Service) orderSNs() core.OrderSNs {
	sns := redisless.OrderSNs{OrderSNs: orderSNs{ordersn.NewGenerator(s.lease, nil)}, Watch: s.watch}
	if s.redislessLease != nil {
		sns.Redisless = orderSNs{ordersn.NewGenerator(s.redislessLease, nil)}
	}
	return sns
}

// observeAccepted exports the number of purchases that this process keeps.
func (s *Service) observeAccepted() error {
	meter := s.deps.Telemetry.Meter
	kept, err := meter.Int64ObservableGauge("flashsale.seckill.accepted.kept", metric.WithUnit("{purchase}"),
		metric.WithDescription("Accepted purchases of degraded sales that this process has not seen published"))
	if err != nil {
		return err
	}
	dropped, err := meter.Int64ObservableCounter("flashsale.seckill.accepted.dropped", metric.WithUnit("{purchase}"),
		metric.WithDescription("Accepted purchases that this process stopped to keep because of their number"))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n, gone := s.watch.Kept()
		o.ObserveInt64(kept, int64(n))
		o.ObserveInt64(dropped, gone)
		return nil
	}, kept, dropped)
	return err
}

// Handler returns the buyers' API, the pages and the sign-in.
func (s *Service) Handler() http.Handler { return s.handler }

// Ready returns nil once the service has held a worker id. It never fails after that: while Redis is unreachable, the
// service is to respond 503 at once.
func (s *Service) Ready() error {
	if held, ok := s.lease.(interface{ Held() bool }); ok && !held.Held() {
		return errors.New("no worker id yet")
	}
	return nil
}

// Components returns the background loops. They run through outages of Redis and the broker. They end in reverse
// order: first the streams, then the calls of the gate, then the relay, so that it publishes what was accepted last.
// The caller appends its listeners.
func (s *Service) Components() []lifecycle.Component {
	var all []lifecycle.Component
	if s.ownLease != nil {
		all = append(all, lifecycle.Component{Name: "worker id", Run: s.ownLease.Run},
			lifecycle.Component{Name: "worker id of inventory", Run: s.redislessLease.Run})
	}
	return append(all,
		s.verifier.Component(s.deps.Telemetry.Log),
		s.presence.Component(),
		s.clocks.Component("seckill"),
		lifecycle.AtEnd("sign-in", func(context.Context) error {
			s.signIn.Close()
			return nil
		}),
		lifecycle.Component{Name: "priority", Run: s.priority.Run},
		lifecycle.Component{Name: "journal relay", Run: s.relay.Run},
		lifecycle.Component{Name: "gate memory", Run: s.memory.Run},
		lifecycle.Component{Name: "request counts", Run: s.counts.Run},
		lifecycle.Component{Name: "counts of suspects", Run: s.suspects.Run},
		lifecycle.AtEnd("calls to inventory", func(context.Context) error {
			s.client.Close()
			return nil
		}),
		lifecycle.Component{Name: "modes", Run: s.watch.Run},
		lifecycle.Component{Name: "sale cache", Run: s.sales.Run},
		lifecycle.Component{Name: "room cache", Run: s.roomCache.Run},
		lifecycle.Component{Name: "waiting rooms", Run: s.roomControl.Run},
		lifecycle.Component{Name: "challenge images", Run: s.challenges.Run},
		lifecycle.AtEnd("challenge provider", func(context.Context) error {
			s.challenges.Close()
			return nil
		}),
		lifecycle.AtEnd("gate calls", func(ctx context.Context) error {
			s.sharedCalls.Close(ctx)
			s.purchases.Close(ctx)
			s.rooms.Close(ctx)
			return nil
		}),
		lifecycle.Component{Name: "event streams", Run: s.feed.Run},
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

func (orderSNs) IssuedAt(orderSN string) time.Time {
	sn, _ := ordersn.Parse(orderSN) // malformed: the zero time
	return sn.Time
}

// consumerName returns the name of this process among the relays. It is new at each start; the relay claims the
// entries that an earlier process did not acknowledge.
func consumerName() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	host, err := os.Hostname()
	if err != nil {
		host = "seckill"
	}
	return host + "-" + hex.EncodeToString(id[:])
}
