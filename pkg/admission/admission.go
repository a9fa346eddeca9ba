// Package admission decides which requests a service takes: it puts the limiters of package ratelimit together with the
// rules, the Redis, the callers and the answers of this system, so that a service only declares on its routes by what name
// they are limited.
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
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
)

// Limits are those of one process. On declares them on a route.
type Limits struct {
	*rules.Registry
	// Store is the rules in Redis, for all processes; nil without Redis.
	Store *rules.Store

	s    Settings
	tel  *telemetry.Telemetry
	rdb  redis.UniversalClient
	conn *ratelimit.Conn
}

// rereadEvery is how often the file is looked at.
const rereadEvery = time.Second

// New puts the rules in force and starts nothing. Redis does not have to be there. of is the Redis of the service, which
// holds where the limiters have none of their own; with no address there either each process counts for itself.
func New(s Settings, of settings.Redis, tel *telemetry.Telemetry) (*Limits, error) {
	trusted, err := s.proxies()
	if err != nil {
		return nil, err
	}
	if len(s.RedisAddrs) > 0 {
		of = settings.Redis{Addrs: s.RedisAddrs, DB: s.RedisDB}
	}
	l := &Limits{s: s, tel: tel}
	m, err := newMetrics(tel.Meter)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if len(of.Addrs) > 0 {
		l.rdb = ratelimit.Connect(of.Addrs, of.DB)
		l.conn = ratelimit.NewConn(l.rdb, ratelimit.ConnOptions{Peers: tel.Service, OnState: func(up bool, cause error) {
			if up {
				tel.Log.Info("redis of the limits is back")
				return
			}
			tel.Log.Warn("redis of the limits does not answer: this process goes on with its share", "error", cause)
		}})
		l.Store = rules.NewStore(l.rdb, "")
	}
	l.Registry = rules.New(rules.Options{
		Conn: l.conn, TrustedProxies: trusted, Refuse: refuse, Waiting: waiting, Edit: s.edit, Log: tel.Log,
		User:    func(r *http.Request) (string, bool) { id := auth.From(r.Context()).UserID; return id, id != "" },
		Route:   routeOf,
		Param:   httpserver.PathParam,
		Observe: m.decided, ObserveWait: m.waited, OnReload: m.reloaded,
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
		return nil, settings.Wrong("LIMIT_RULES", "is of no use: %v", err)
	}
	return l, m.observe(tel.Meter, l)
}

// Local has the rules of a developer's machine, or of the file that the settings name, each process for itself.
func Local(s Settings, tel *telemetry.Telemetry) (*Limits, error) {
	return New(s, settings.Redis{}, tel)
}

// None limits nothing: for tests of something else.
func None(tel *telemetry.Telemetry) *Limits {
	return &Limits{Registry: rules.New(rules.Options{}), tel: tel}
}

// Names are those of all limits that the routes of the services have, whether or not a rule says anything about them here.
func Names() []string { return slices.Clone(names()) }

var names = sync.OnceValue(func() []string {
	set, err := rules.Parse(productionRules)
	if err != nil {
		panic(err) // it comes with the code, and a test reads it
	}
	names := make([]string, len(set.Rules))
	for i, r := range set.Rules {
		names[i] = r.Name
	}
	return names
})

// Components keep the rules and what is spent of them together with those of other processes. They belong before the
// listeners, whose last requests still have to be decided.
func (l *Limits) Components() []lifecycle.Component {
	var all []lifecycle.Component
	if l.rdb != nil {
		all = append(all,
			lifecycle.AtEnd("redis of the limits", func(context.Context) error { return l.rdb.Close() }),
			lifecycle.Component{Name: "limits", Run: l.conn.Run},
			lifecycle.Component{Name: "limits in redis", Run: func(ctx context.Context) error { return l.Store.Follow(ctx, l.Registry) }},
			lifecycle.Component{Name: "figures of the limits", Run: func(ctx context.Context) error {
				l.checkEviction(ctx)
				return l.Store.Publish(ctx, l.Registry, l.tel.Service+"/"+l.conn.Instance())
			}},
		)
	}
	if l.s.Rules != "" {
		all = append(all, lifecycle.Component{Name: "limits' file", Run: func(ctx context.Context) error { return l.Watch(ctx, l.s.Rules, rereadEvery) }})
	}
	return all
}

// checkEviction warns of a Redis that may forget limits in force. One that does not tell is believed.
func (l *Limits) checkEviction(ctx context.Context) {
	if err := l.conn.CheckEviction(ctx); err != nil && !errors.Is(err, ratelimit.ErrUnavailable) {
		l.tel.Log.WarnContext(ctx, "redis of the limits is set up wrongly", "error", err)
	}
}

var quiet = slog.New(slog.DiscardHandler) // refusals of callers are not logged, they are counted

// refuse answers as the interface has it.
func refuse(w http.ResponseWriter, r *http.Request, f rules.Refusal) {
	code, detail := contract.CodeRateLimited, "Too many requests. Come again later."
	switch f.Reason {
	case rules.OverLimit:
	case rules.TooManyAtOnce:
		detail = "Too many of these requests are in flight. Nothing was done."
	case rules.Unavailable:
		code, detail = contract.CodeUnavailable, "This cannot be answered right now. Nothing was done."
	}
	problem.Write(w, r, quiet, contract.Refuse(code, detail).With("violated_policies", f.Violated).After(f.RetryAfter))
}

// routeOf is the pattern of the route that was found.
func routeOf(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil {
		return r.Method + " " + c.RoutePattern()
	}
	return ""
}

type waitKey struct{}

// WithWaiting has told called before and after the request of that context waits for its turn.
func WithWaiting(ctx context.Context, told func(waiting bool)) context.Context {
	return context.WithValue(ctx, waitKey{}, told)
}

func waiting(r *http.Request, now bool) {
	if told, ok := r.Context().Value(waitKey{}).(func(bool)); ok {
		told(now)
	}
}
