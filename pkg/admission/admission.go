// Package admission limits the requests of a service. It connects the limiters of package ratelimit with the rules,
// the Redis, the caller identities and the error responses of this system. A service only declares the names of the
// limits on its routes.
package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/problem"
	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
)

// Limits holds the limits of one process. On declares them on a route.
type Limits struct {
	*rules.Registry
	// Store holds the rules in Redis, which apply to all processes; nil without Redis.
	Store *rules.Store

	s    Settings
	tel  *telemetry.Telemetry
	rdb  redis.UniversalClient
	conn *ratelimit.Conn
}

// rereadEvery is the interval at which the file of rules is checked for changes.
const rereadEvery = time.Second

// New puts the rules in force and starts nothing. Redis does not have to be reachable. of is the Redis of the service,
// which the limiters use unless LIMIT_REDIS_ADDRS names another. If neither has an address, each process counts alone.
func New(s Settings, of settings.Redis, tel *telemetry.Telemetry) (*Limits, error) {
	trusted, err := s.proxies()
	if err != nil {
		return nil, err
	}
	of = s.Redis(of)
	l := &Limits{s: s, tel: tel}
	m, err := newMetrics(tel.Meter)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if len(of.Addrs) > 0 {
		incidents, err := tel.Incidents()
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		l.rdb = ratelimit.Connect(of.Addrs, of.DB, redisconn.To(of))
		redisconn.Watch(l.rdb, "limits", tel.Log, incidents)
		l.conn = ratelimit.NewConn(l.rdb, ratelimit.ConnOptions{Peers: tel.Service, OnState: func(up bool, cause error) {
			if up {
				tel.Log.Info("redis of the limits is available again")
				return
			}
			tel.Log.Warn("redis of the limits is unavailable, this process applies its share of each limit", "error",
				cause)
		}})
		l.Store = rules.NewStore(l.rdb, "")
		if err := tel.ObserveBreaker("limits", l.Breaker); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	l.Registry = rules.New(rules.Options{
		Conn: l.conn, TrustedProxies: trusted, Refuse: refuse, Waiting: waiting, Edit: s.edit, Log: tel.Log,
		User:     func(r *http.Request) (string, bool) { id := auth.From(r.Context()).UserID; return id, id != "" },
		Merchant: merchantOf,
		Route:    routeOf,
		Param:    httpserver.PathParam,
		Observe:  m.decided, ObserveWait: m.waited, OnReload: m.reloaded,
	})
	text, err := s.text()
	if err != nil {
		return nil, settings.Wrong("LIMIT_RULES", "cannot be read: %v", err)
	}
	set, err := rules.Parse(text)
	if err == nil {
		err = l.Apply(set)
	}
	if err != nil {
		return nil, settings.Wrong("LIMIT_RULES", "is invalid: %v", err)
	}
	return l, m.observe(tel.Meter, l)
}

// Local returns limits without Redis: each process counts alone. The rules are those of the settings.
func Local(s Settings, tel *telemetry.Telemetry) (*Limits, error) {
	return New(s, settings.Redis{}, tel)
}

// Redis returns the client for the Redis of the limits, nil without Redis. Its owner is l.
func (l *Limits) Redis() redis.UniversalClient { return l.rdb }

// Limiter returns a limiter that all processes of the service share, or one of this process without Redis. While Redis is
// unavailable, this process applies its share.
func (l *Limits) Limiter(name string, s ratelimit.Spec) (ratelimit.Limiter, error) {
	if l.conn == nil {
		return ratelimit.NewLocal(s)
	}
	return l.conn.NewRedis(name, s, ratelimit.RedisOptions{})
}

// Breaker returns the state of the breaker before the Redis of the limits: closed or open; "" without Redis.
func (l *Limits) Breaker() string {
	switch {
	case l.conn == nil:
		return ""
	case l.conn.Up():
		return "closed"
	}
	return "open"
}

// None returns limits that limit nothing, for commands and for tests of other things.
func None(tel *telemetry.Telemetry) *Limits {
	return &Limits{Registry: rules.New(rules.Options{}), tel: tel}
}

// Names returns the names of all limits on the routes of the services, also of those without a rule in force.
func Names() []string { return slices.Clone(names()) }

// Production returns the rules that hold with APP_ENV=production and without LIMIT_RULES.
func Production() []rules.Rule {
	set, err := rules.Parse(productionRules)
	if err != nil {
		panic(err) // unreachable: the rules are embedded, and a test parses them
	}
	return set.Rules
}

var names = sync.OnceValue(func() []string {
	var names []string
	for _, r := range Production() {
		names = append(names, r.Name)
	}
	return names
})

// Components returns the loops that synchronize rules and counts with other processes. They go before the listeners,
// so that they still run while the last requests are decided.
func (l *Limits) Components() []lifecycle.Component {
	var all []lifecycle.Component
	if l.rdb != nil {
		all = append(all,
			lifecycle.AtEnd("redis of the limits", func(context.Context) error { return l.rdb.Close() }),
			lifecycle.Component{Name: "limits", Run: l.conn.Run},
			lifecycle.Component{Name: "limits in redis", Run: func(ctx context.Context) error {
				return l.Store.Follow(ctx, l.Registry)
			}},
			lifecycle.Component{Name: "figures of the limits", Run: func(ctx context.Context) error {
				l.checkEviction(ctx)
				return l.Store.Publish(ctx, l.Registry, l.tel.Service+"/"+l.conn.Instance())
			}},
		)
	}
	if l.s.Rules != "" {
		all = append(all, lifecycle.Component{Name: "limits' file", Run: func(ctx context.Context) error {
			return l.Watch(ctx, l.s.Rules, rereadEvery)
		}})
	}
	return all
}

// checkEviction logs a warning if Redis may evict limits in force. A Redis that does not report its policy is
// accepted.
func (l *Limits) checkEviction(ctx context.Context) {
	if err := l.conn.CheckEviction(ctx); err != nil && !errors.Is(err, ratelimit.ErrUnavailable) {
		l.tel.Log.WarnContext(ctx, "redis of the limits has a wrong eviction policy", "error", err)
	}
}

var discard = slog.New(slog.DiscardHandler) // refusals are counted, not logged

// refuse responds with the problem document of the refusal.
func refuse(w http.ResponseWriter, r *http.Request, f rules.Refusal) {
	code, detail := contract.CodeRateLimited, "Too many requests. Retry later."
	switch f.Reason {
	case rules.OverLimit:
	case rules.TooManyAtOnce:
		detail = "Too many of these requests are in flight. Nothing was done."
	case rules.Unavailable:
		code, detail = contract.CodeUnavailable, "The limits cannot be checked right now. Nothing was done."
	}
	problem.Write(w, r, discard,
		contract.Refuse(code, detail).With("violated_policies", f.Violated).After(f.RetryAfter))
}

// merchantOf returns the key of limits by merchant: the id of the merchant that the caller acts for. The key of a caller
// without a merchant, such as an operator, holds the user id. It is the key of no merchant: their ids have no colon.
func merchantOf(r *http.Request) string {
	id := auth.From(r.Context())
	if id.MerchantID == "" && id.UserID != "" {
		return "user:" + id.UserID
	}
	return id.MerchantID
}

// routeOf returns method and pattern of the matched route, "" if there is none.
func routeOf(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil {
		return r.Method + " " + c.RoutePattern()
	}
	return ""
}

type waitKey struct{}

// WithWaiting returns a context whose request calls notify(true) before it waits in the queue of a limit, and
// notify(false) after.
func WithWaiting(ctx context.Context, notify func(waiting bool)) context.Context {
	return context.WithValue(ctx, waitKey{}, notify)
}

func waiting(r *http.Request, now bool) {
	if notify, ok := r.Context().Value(waitKey{}).(func(bool)); ok {
		notify(now)
	}
}
