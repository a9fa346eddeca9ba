package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/ratelimit"
)

// Options are the options of a Registry.
type Options struct {
	// Conn is the Redis of the rules with where: redis. Without it all rules are local.
	Conn *ratelimit.Conn
	// User returns the verified user of a request, for rules by user. Without it all requests count as anonymous.
	User func(*http.Request) (id string, ok bool)
	// Merchant returns the verified merchant of the caller, for rules by merchant. Without it all requests
	// count as those of one merchant.
	Merchant func(*http.Request) string
	// Route returns the name of the route of a request, for rules by route. Without it all requests count as one
	// route.
	Route func(*http.Request) string
	// Param returns a path parameter of a request, for rules by param. It must be unescaped: otherwise each spelling
	// of a value would have a limit of its own. Default: Request.PathValue, which works with http.ServeMux.
	Param func(r *http.Request, name string) string
	// TrustedProxies are the addresses whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// Refuse writes the response to a refused request. The header fields RateLimit, RateLimit-Policy and Retry-After
	// are already set. Default: a problem document, 429 or 503.
	Refuse func(w http.ResponseWriter, r *http.Request, refusal Refusal)
	// Waiting is called before and after a request waits, for example so that a load shedder does not count it
	// meanwhile.
	Waiting func(r *http.Request, waiting bool)
	// ObserveWait is called when the wait of a request ends because its turn has come.
	ObserveWait func(rule string, wait time.Duration)
	// Edit changes the rules of a file before they are applied, for example by settings of the process.
	Edit func(*Set)
	// Observe is called for each decision of a rule. It must be fast.
	Observe func(rule string, outcome Outcome, source ratelimit.Source)
	// RetrySpread extends Retry-After at random by up to that fraction, plus one second (default 0.2; negative: not at
	// all).
	RetrySpread float64
	// OnReload is called after each read of changed rules from "file" or "redis", with an error if they were rejected. It
	// is also called once, with the error, when Watch can no longer read the file.
	OnReload func(source string, err error)
	// Log receives the reasons why rules were rejected. Default: no log.
	Log *slog.Logger
}

// Outcome is the decision of a rule about a request.
type Outcome string

// The outcomes.
const (
	Allowed Outcome = "allowed"
	Waited  Outcome = "waited" // allowed after a wait
	Refused Outcome = "refused"
	Shadow  Outcome = "shadow" // a shadow rule would have refused
	Failed  Outcome = "failed" // Redis was unreachable and the rule fails closed
)

// Registry holds the rules in force. All methods are safe for concurrent use.
type Registry struct {
	o Options

	mu       sync.Mutex // held during changes
	file     Set        // rules of the file
	overlay  Set        // rules in Redis, which take precedence
	declared map[string]bool
	current  atomic.Pointer[snapshot]
}

// snapshot is the rules in force at one time. It is immutable.
type snapshot struct {
	rules map[string]*active
}

// active is a rule and its limiter.
type active struct {
	rule     Rule
	key      []keyPart
	limiter  ratelimit.Limiter            // nil if blocked, and for concurrency
	bulkhead ratelimit.ConcurrencyLimiter // for concurrency
	blocked  bool                         // the limit is 0
	counters *counters
}

// New returns a Registry without rules.
func New(o Options) *Registry {
	if o.User == nil {
		o.User = func(*http.Request) (string, bool) { return "", false }
	}
	if o.Merchant == nil {
		o.Merchant = func(*http.Request) string { return "" }
	}
	if o.Route == nil {
		o.Route = func(*http.Request) string { return "" }
	}
	if o.Param == nil {
		o.Param = (*http.Request).PathValue
	}
	if o.ObserveWait == nil {
		o.ObserveWait = func(string, time.Duration) {}
	}
	if o.Edit == nil {
		o.Edit = func(*Set) {}
	}
	if o.Refuse == nil {
		o.Refuse = writeProblem
	}
	if o.Waiting == nil {
		o.Waiting = func(*http.Request, bool) {}
	}
	if o.Observe == nil {
		o.Observe = func(string, Outcome, ratelimit.Source) {}
	}
	if o.OnReload == nil {
		o.OnReload = func(string, error) {}
	}
	if o.RetrySpread == 0 {
		o.RetrySpread = 0.2
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Registry{o: o, declared: map[string]bool{}}
	g.file, g.overlay = Set{Version: formatVersion}, Set{Version: formatVersion}
	g.current.Store(&snapshot{rules: map[string]*active{}})
	return g
}

// Apply puts the rules of a file in force: all of them, or none and an error with the reason. A change of a rule keeps
// the spent permits as Limiter.SetSpec describes. Those of a local rule are lost if it moves to Redis, changes between
// a rate and concurrency, or had a limit of 0 in between. Those in Redis are lost if the rule becomes local.
func (g *Registry) Apply(file Set) error {
	file.Rules = slices.Clone(file.Rules)
	g.o.Edit(&file)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.put(file, g.overlay)
}

// Overlay puts rules on top of those of the file. They add rules, replace them and, by Deleted, remove them.
func (g *Registry) Overlay(overlay Set) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.put(g.file, overlay)
}

// merge returns the rules of file with overlay on top, sorted by name.
func merge(file, overlay Set) []Rule {
	over := map[string]bool{}
	for _, r := range overlay.Rules {
		over[r.Name] = true
	}
	for _, name := range overlay.Deleted {
		over[name] = true
	}
	out := slices.Clone(overlay.Rules)
	for _, r := range file.Rules {
		if !over[r.Name] {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Rule) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}

// put replaces the rules; g.mu must be held. Everything that can fail comes first, so that a change is complete or has
// no effect.
func (g *Registry) put(file, overlay Set) error {
	if err := errors.Join(file.Validate(), overlay.Validate()); err != nil {
		return err
	}
	if len(file.Deleted) > 0 {
		return errors.New("rules: `deleted` is not allowed in a file")
	}
	before := g.current.Load().rules
	next := &snapshot{rules: map[string]*active{}}
	var change []func() error
	for _, r := range merge(file, overlay) {
		a, apply, err := g.activate(r, before[r.Name])
		if err != nil {
			return fmt.Errorf("rules: %s: %w", r.Name, err)
		}
		next.rules[r.Name] = a
		if apply != nil {
			change = append(change, apply)
		}
	}
	for _, apply := range change { // cannot fail: the rules are validated
		if err := apply(); err != nil {
			return fmt.Errorf("rules: %w", err)
		}
	}
	g.file, g.overlay = file, overlay
	g.current.Store(next)
	for name, a := range before {
		if now := next.rules[name]; now == nil || now.limiter != a.limiter || now.bulkhead != a.bulkhead {
			a.close()
		}
	}
	return nil
}

// activate returns a rule with its limiter. If it keeps the limiter of before, apply changes the limit.
func (g *Registry) activate(r Rule, before *active) (a *active, apply func() error, err error) {
	a = &active{rule: r, counters: newCounters()}
	if a.key, err = parseKey(r.Key); err != nil {
		return nil, nil, err
	}
	if before != nil {
		a.counters = before.counters
	}
	if r.Limit == 0 {
		a.blocked = true
		return a, nil, nil
	}
	keep := before != nil && !before.blocked && g.sameKind(before.rule, r)
	if r.Algorithm == Concurrency {
		apply, err = g.activateBulkhead(a, before, keep)
	} else {
		apply, err = g.activateLimiter(a, before, keep)
	}
	return a, apply, err
}

func (g *Registry) activateLimiter(a, before *active, keep bool) (func() error, error) {
	r := a.rule
	spec, err := r.Spec()
	if err != nil {
		return nil, err
	}
	if keep {
		a.limiter = before.limiter
		return func() error { return a.limiter.SetSpec(spec) }, nil
	}
	if g.local(r) {
		a.limiter, err = ratelimit.NewLocal(spec)
		return nil, err
	}
	policy, err := r.onFailure()
	if err != nil {
		return nil, err
	}
	a.limiter, err = g.o.Conn.NewRedis(r.Name, spec, ratelimit.RedisOptions{OnFailure: policy, Lease: r.Lease})
	return nil, err
}

func (g *Registry) activateBulkhead(a, before *active, keep bool) (func() error, error) {
	r := a.rule
	spec := ratelimit.BulkheadSpec{Limit: r.Limit, Queue: r.Queue, MaxWait: time.Duration(r.MaxWait)}
	if spec.Queue == 0 && spec.MaxWait > 0 {
		spec.Queue = r.Limit
	}
	if keep {
		a.bulkhead = before.bulkhead
		return func() error { return a.bulkhead.SetSpec(spec) }, nil
	}
	var err error
	if g.local(r) {
		a.bulkhead, err = ratelimit.NewBulkhead(spec)
		return nil, err
	}
	policy, err := r.onFailure()
	if err != nil {
		return nil, err
	}
	a.bulkhead, err = g.o.Conn.NewBulkhead(r.Name, spec, policy, 0)
	return nil, err
}

func (g *Registry) local(r Rule) bool { return g.o.Conn == nil || r.Where == "local" }

// sameKind reports whether the limiter of a rule can be kept under the changed rule.
func (g *Registry) sameKind(was, is Rule) bool {
	return g.local(was) == g.local(is) && (was.Algorithm == Concurrency) == (is.Algorithm == Concurrency) &&
		(g.local(is) || was.OnFailure == is.OnFailure && was.Lease == is.Lease)
}

const closeTime = time.Second

func (a *active) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if l, ok := a.limiter.(*ratelimit.Redis); ok {
		l.Close(ctx)
	}
	if b, ok := a.bulkhead.(*ratelimit.RedisBulkhead); ok {
		b.Close()
	}
}

// Rules returns the rules in force, sorted by name.
func (g *Registry) Rules() []Rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	return merge(g.file, g.overlay)
}

// Under returns the rule of that name that an overlay would put in force, nil if there would be none.
func (g *Registry) Under(overlay Set, name string) *Rule {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := merge(g.file, overlay)
	if i := slices.IndexFunc(all, func(r Rule) bool { return r.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Missing returns the names that routes declare without a rule in force: nothing limits those routes by them.
func (g *Registry) Missing() (names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rules := g.current.Load().rules
	for name := range g.declared {
		if rules[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ErrUnknownRule is returned for names without a rule in force.
var ErrUnknownRule = errors.New("rules: no such rule")

// Status is a rule in force and the number of its decisions in this process.
type Status struct {
	Rule     Rule     `json:"rule"`
	Allowed  int64    `json:"allowed"`
	Waited   int64    `json:"waited"`
	Refused  int64    `json:"refused"`
	Shadowed int64    `json:"shadowed"` // would have been refused
	Failed   int64    `json:"failed"`
	Limited  []Caller `json:"limited"` // callers refused now, most refused first
}

// List returns the status of all rules, sorted by name, without callers.
func (g *Registry) List() []Status {
	rules := g.current.Load().rules
	out := make([]Status, 0, len(rules))
	for _, a := range rules {
		s := a.counters.status()
		s.Rule = a.rule
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int {
		if a.Rule.Name < b.Rule.Name {
			return -1
		}
		return 1
	})
	return out
}

// Status returns the status of one rule, with up to n of the callers refused now.
func (g *Registry) Status(name string, n int) (Status, error) {
	a := g.current.Load().rules[name]
	if a == nil {
		return Status{}, fmt.Errorf("%w: %q", ErrUnknownRule, name)
	}
	s := a.counters.status()
	s.Rule, s.Limited = a.rule, a.counters.limited(n)
	return s, nil
}

// Try previews the decision of a rule about a key, written as in Caller.Key. It charges nothing.
func (g *Registry) Try(ctx context.Context, name, key string) (ratelimit.Result, error) {
	a := g.current.Load().rules[name]
	switch {
	case a == nil:
		return ratelimit.Result{}, fmt.Errorf("%w: %q", ErrUnknownRule, name)
	case a.blocked:
		return ratelimit.Result{RetryAfter: ratelimit.Never}, nil
	case a.bulkhead != nil:
		return ratelimit.Result{}, fmt.Errorf("rules: %q bounds concurrency, which cannot be previewed", name)
	}
	res, err := ratelimit.Peek(ctx, a.limiter, key)
	res.Allowed = err == nil && res.Remaining >= a.rule.cost()
	return res, err
}

// Reset removes what a key has spent of a rule.
func (g *Registry) Reset(ctx context.Context, name, key string) error {
	a := g.current.Load().rules[name]
	if a == nil || a.limiter == nil {
		return fmt.Errorf("%w: %q", ErrUnknownRule, name)
	}
	return a.limiter.Reset(ctx, key)
}

// holds reports whether the rules of the file in force are these.
func (g *Registry) holds(s Set) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Rules = slices.Clone(s.Rules)
	g.o.Edit(&s)
	return slices.Equal(g.file.Rules, s.Rules)
}
