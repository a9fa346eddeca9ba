package rules

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/ratelimit/httpfield"
)

// Reason is the reason of a refusal.
type Reason uint8

// The reasons.
const (
	// OverLimit means that a rate is exceeded; status 429.
	OverLimit Reason = iota
	// TooManyAtOnce means that a concurrency rule is full; status 429.
	TooManyAtOnce
	// Unavailable means that Redis was unreachable and a rule fails closed, or that the request ended before its turn;
	// status 503.
	Unavailable
)

// Refusal describes the refusal of a request.
type Refusal struct {
	Reason     Reason
	Violated   []string      // names of the rules that refused
	RetryAfter time.Duration // without the jitter of the header field; 0 = can never pass, or unknown if Unavailable
}

// Status returns the HTTP status.
func (f Refusal) Status() int {
	if f.Reason == Unavailable {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// writeProblem writes a problem document (RFC 9457) of the types that the RateLimit draft registers.
func writeProblem(w http.ResponseWriter, _ *http.Request, f Refusal) {
	body := map[string]any{
		"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Too many requests",
		"status": f.Status(), "violated_policies": f.Violated,
	}
	if f.Reason == Unavailable {
		body["type"] = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
		body["title"] = "Not available right now"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(f.Status())
	_ = json.NewEncoder(w).Encode(body)
}

// On returns a middleware that limits a route by rules. The rules are looked up by name for each request, so a rule
// may be added, changed or removed while the server runs. A name without a rule limits nothing (see Missing). Either
// all rates are charged or none. Then slots of bulkheads are acquired; they are released when the handler returns. If
// a request ends while it waits for its turn, its charges are refunded.
func (g *Registry) On(names ...string) func(http.Handler) http.Handler {
	g.mu.Lock()
	for _, name := range names {
		g.declared[name] = true
	}
	g.mu.Unlock()
	rt := &route{g: g, names: names}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rt.serve(w, r, next) })
	}
}

// route is a list of rules on a handler.
type route struct {
	g     *Registry
	names []string
	plan  atomic.Pointer[plan]
}

// plan is the rules of a route in one snapshot.
type plan struct {
	of                       *snapshot
	rates, bulkheads, shadow []*active
	blocked                  []*active
	policy                   []string // the RateLimit-Policy field; responses share it, so it is never modified
}

func (rt *route) currentPlan() *plan {
	now := rt.g.current.Load()
	if p := rt.plan.Load(); p != nil && p.of == now {
		return p
	}
	p := &plan{of: now}
	var policy []byte
	for _, name := range rt.names {
		a := now.rules[name]
		switch {
		case a == nil:
			continue
		case a.rule.Shadow:
			p.shadow = append(p.shadow, a)
			continue
		case a.blocked:
			p.blocked = append(p.blocked, a)
		case a.bulkhead != nil:
			p.bulkheads = append(p.bulkheads, a)
			continue
		default:
			p.rates = append(p.rates, a)
		}
		if len(policy) > 0 {
			policy = append(policy, ", "...)
		}
		per := time.Duration(a.rule.Per)
		if per == 0 {
			per = time.Second
		}
		policy = httpfield.AppendPolicy(policy, httpfield.Policy{Name: name, Quota: a.rule.Limit, Window: per})
	}
	p.policy = []string{string(policy)}
	rt.plan.Store(p)
	return p
}

const fewRules = 4 // rules of a route for which each slice is allocated once

func (rt *route) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	p := rt.currentPlan()
	for _, a := range p.shadow {
		rt.g.shadow(r, a)
	}
	if len(p.blocked) > 0 {
		rt.g.refuseBlocked(w, r, p)
		return
	}
	if len(p.rates) > 0 && !rt.g.passRates(w, r, p) {
		return
	}
	if len(p.bulkheads) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	permits := make([]ratelimit.Permit, 0, fewRules)
	defer func() {
		for _, permit := range permits {
			permit.Release()
		}
	}()
	for _, a := range p.bulkheads {
		permit, ok := rt.g.acquire(w, r, a)
		if !ok {
			return
		}
		permits = append(permits, permit)
	}
	next.ServeHTTP(w, r)
}

// passRates charges all rates of a route and waits. If it returns false, the response has been written.
func (g *Registry) passRates(w http.ResponseWriter, r *http.Request, p *plan) bool {
	if len(p.rates) == 1 {
		return g.passRate(w, r, p)
	}
	var chargesAt [fewRules]ratelimit.Charge
	var resultsAt [fewRules]ratelimit.Result
	charges, results := chargesAt[:0], resultsAt[:0]
	for _, a := range p.rates {
		charges = append(charges, ratelimit.Charge{Limiter: a.limiter, Request: ratelimit.Request{
			Key: g.subject(r, a.key), N: a.rule.cost(), MaxWait: time.Duration(a.rule.MaxWait),
		}})
		results = append(results, ratelimit.Result{})
	}
	allowed, err := ratelimit.TakeAll(r.Context(), charges, results)
	return g.passed(w, r, taken{p, charges, results}, allowed, err)
}

// passRate is passRates for a single rule, which most routes have. A request that passes without a wait costs as
// little as possible.
func (g *Registry) passRate(w http.ResponseWriter, r *http.Request, p *plan) bool {
	a := p.rates[0]
	q := ratelimit.Request{Key: g.subject(r, a.key), N: a.rule.cost(), MaxWait: time.Duration(a.rule.MaxWait)}
	res, err := a.limiter.Take(r.Context(), q)
	if err == nil && res.Allowed && res.Wait == 0 {
		g.setFieldsForOne(w.Header(), p, res)
		a.counters.allowed.Add(1)
		g.o.Observe(a.rule.Name, Allowed, res.Source)
		return true
	}
	charges, results := []ratelimit.Charge{{Limiter: a.limiter, Request: q}}, []ratelimit.Result{res}
	return g.passed(w, r, taken{p, charges, results}, res.Allowed && err == nil, err)
}

// taken is the outcome of charging the rates of a plan.
type taken struct {
	plan    *plan
	charges []ratelimit.Charge // parallel to plan.rates
	results []ratelimit.Result
}

// passed continues after the rates were charged: it sets the header fields, and refuses the request or waits for its
// turn.
func (g *Registry) passed(w http.ResponseWriter, r *http.Request, t taken, allowed bool, err error) bool {
	g.setFields(w.Header(), t.plan, t.results)
	if !allowed {
		g.refuseRates(w, r, t, err)
		return false
	}
	wait := time.Duration(0)
	for _, res := range t.results {
		wait = max(wait, res.Wait)
	}
	if wait > 0 && !g.wait(w, r, t, wait) {
		return false
	}
	for i, res := range t.results {
		a := t.plan.rates[i]
		if res.Wait > 0 {
			a.counters.waited.Add(1)
			g.o.Observe(a.rule.Name, Waited, res.Source)
			g.o.ObserveWait(a.rule.Name, res.Wait)
		} else {
			a.counters.allowed.Add(1)
			g.o.Observe(a.rule.Name, Allowed, res.Source)
		}
	}
	return true
}

// Names of the header fields in the canonical form of http.Header.
const (
	policyField = "Ratelimit-Policy"
	limitField  = "Ratelimit"
)

// setFields sets the header fields RateLimit-Policy and RateLimit.
func (g *Registry) setFields(h http.Header, p *plan, results []ratelimit.Result) {
	var at [128]byte
	b := at[:0]
	for i := range p.rates {
		b = appendLimit(b, p.rates[i], &results[i])
	}
	addFields(h, p, b)
}

func (g *Registry) setFieldsForOne(h http.Header, p *plan, res ratelimit.Result) {
	var at [128]byte
	addFields(h, p, appendLimit(at[:0], p.rates[0], &res))
}

func appendLimit(b []byte, a *active, res *ratelimit.Result) []byte {
	if res.Remaining == ratelimit.Unknown {
		return b
	}
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	remaining, reset := res.Remaining, res.ResetAfter
	if !res.Allowed {
		// The response must not report enough permits for a retry: the client would retry before Retry-After. They
		// could be enough because other requests have returned permits meanwhile.
		remaining = min(remaining, a.rule.cost()-1)
		if res.RetryAfter >= 0 {
			reset = res.RetryAfter // no later than Retry-After
		}
	}
	return httpfield.AppendLimit(b, httpfield.Limit{Name: a.rule.Name, Remaining: remaining, Reset: reset})
}

// addFields appends to existing values, because routes with rules may be nested.
func addFields(h http.Header, p *plan, limits []byte) {
	if values := h[policyField]; values != nil {
		h[policyField] = append(values[:len(values):len(values)], p.policy...)
	} else {
		h[policyField] = p.policy
	}
	if len(limits) > 0 {
		h[limitField] = append(h[limitField], string(limits))
	}
}

func (g *Registry) refuseRates(w http.ResponseWriter, r *http.Request, t taken, err error) {
	f := Refusal{Reason: OverLimit}
	if err != nil {
		f.Reason = Unavailable
		if r.Context().Err() == nil {
			g.o.Log.DebugContext(r.Context(), "taking permits failed", "error", err)
		}
	}
	now, retryHelps := time.Now(), true
	for i, a := range t.plan.rates {
		res := t.results[i]
		if res.Allowed {
			continue
		}
		f.Violated = append(f.Violated, a.rule.Name)
		f.RetryAfter = max(f.RetryAfter, res.RetryAfter)
		retryHelps = retryHelps && res.RetryAfter != ratelimit.Never
		if f.Reason == Unavailable && res.Source == ratelimit.SourceFallback {
			a.counters.failed.Add(1)
			g.o.Observe(a.rule.Name, Failed, res.Source)
			continue
		}
		a.counters.refused.Add(1)
		a.counters.refuse(t.charges[i].Request.Key, now, res.RetryAfter)
		g.o.Observe(a.rule.Name, Refused, res.Source)
	}
	if !retryHelps {
		f.RetryAfter = 0
	}
	g.refuse(w, r, f)
}

func (g *Registry) refuse(w http.ResponseWriter, r *http.Request, f Refusal) {
	if f.RetryAfter > 0 || f.Reason != OverLimit {
		w.Header().Set("Retry-After", httpfield.RetryAfter(f.RetryAfter, g.o.RetrySpread))
	}
	g.o.Refuse(w, r, f)
}

func (g *Registry) refuseBlocked(w http.ResponseWriter, r *http.Request, p *plan) {
	f := Refusal{Reason: OverLimit}
	var b []byte
	for i, a := range p.blocked {
		per := time.Duration(a.rule.Per)
		f.Violated, f.RetryAfter = append(f.Violated, a.rule.Name), max(f.RetryAfter, per, time.Second)
		a.counters.refused.Add(1)
		g.o.Observe(a.rule.Name, Refused, ratelimit.SourceLocal)
		if i > 0 {
			b = append(b, ", "...)
		}
		b = httpfield.AppendLimit(b, httpfield.Limit{Name: a.rule.Name, Reset: max(per, time.Second)})
	}
	addFields(w.Header(), p, b)
	g.refuse(w, r, f)
}

const cancelTime = time.Second

// wait waits until the turn of a request. If the request ends first, its charges are refunded.
func (g *Registry) wait(w http.ResponseWriter, r *http.Request, t taken, d time.Duration) bool {
	g.o.Waiting(r, true)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		g.o.Waiting(r, false)
		return true
	case <-r.Context().Done():
	}
	g.o.Waiting(r, false)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), cancelTime)
	defer cancel()
	if err := ratelimit.Cancel(ctx, t.charges, t.results); err != nil {
		g.o.Log.DebugContext(ctx, "refunding permits failed", "error", err)
	}
	f := Refusal{Reason: Unavailable, RetryAfter: d}
	for i, a := range t.plan.rates {
		if t.results[i].Wait > 0 {
			f.Violated = append(f.Violated, a.rule.Name)
		}
	}
	g.refuse(w, r, f)
	return false
}

// acquire acquires a slot of a bulkhead. If that fails, the rates stay charged, because the request did arrive.
func (g *Registry) acquire(w http.ResponseWriter, r *http.Request, a *active) (ratelimit.Permit, bool) {
	waits := a.rule.MaxWait > 0
	if waits {
		g.o.Waiting(r, true)
	}
	permit, err := a.bulkhead.Acquire(r.Context(), g.subject(r, a.key))
	if waits {
		g.o.Waiting(r, false)
	}
	if err == nil {
		a.counters.allowed.Add(1)
		g.o.Observe(a.rule.Name, Allowed, ratelimit.SourceLocal)
		return permit, true
	}
	f := Refusal{Reason: TooManyAtOnce, Violated: []string{a.rule.Name}, RetryAfter: time.Second}
	outcome := Refused
	if !errors.Is(err, ratelimit.ErrQueueFull) && !errors.Is(err, ratelimit.ErrLimited) {
		f.Reason, outcome = Unavailable, Failed
		a.counters.failed.Add(1)
	} else {
		a.counters.refused.Add(1)
	}
	g.o.Observe(a.rule.Name, outcome, ratelimit.SourceLocal)
	g.refuse(w, r, f)
	return ratelimit.Permit{}, false
}

// shadow counts the decision of a shadow rule, which refuses nothing.
func (g *Registry) shadow(r *http.Request, a *active) {
	key := g.subject(r, a.key)
	if a.limiter == nil {
		if a.blocked {
			a.counters.shadowed.Add(1)
			g.o.Observe(a.rule.Name, Shadow, ratelimit.SourceLocal)
		}
		return
	}
	q := ratelimit.Request{Key: key, N: a.rule.cost(), MaxWait: time.Duration(a.rule.MaxWait)}
	res, err := a.limiter.Take(r.Context(), q)
	switch {
	case err != nil:
		a.counters.failed.Add(1)
		g.o.Observe(a.rule.Name, Failed, res.Source)
	case res.Allowed:
		a.counters.allowed.Add(1)
		g.o.Observe(a.rule.Name, Allowed, res.Source)
	default:
		a.counters.shadowed.Add(1)
		a.counters.refuse(key, time.Now(), res.RetryAfter)
		g.o.Observe(a.rule.Name, Shadow, res.Source)
	}
}

// missingPart stands for a part of the key that a request lacks.
const missingPart = "-"

// subject returns the key that shares a limit with the request: its parts joined by |. A | or \ within a part is
// escaped, so no client can craft a header that yields the subject of another one.
func (g *Registry) subject(r *http.Request, key []keyPart) string {
	switch len(key) {
	case 0:
		return ""
	case 1:
		return g.part(r, key[0])
	}
	var b strings.Builder
	for i, k := range key {
		if i > 0 {
			b.WriteByte('|')
		}
		part := g.part(r, k)
		if strings.ContainsAny(part, `|\`) {
			part = strings.NewReplacer(`\`, `\\`, `|`, `\|`).Replace(part)
		}
		b.WriteString(part)
	}
	return b.String()
}

// Address returns the address that limits by ip count for a request: an IPv4 address, or the /64 of an IPv6 address. It
// is "" if the address of the connection is not known.
func (g *Registry) Address(r *http.Request) string {
	a, ok := httpfield.ClientIP(r, g.o.TrustedProxies)
	if !ok {
		return ""
	}
	return httpfield.Subject(a)
}

func (g *Registry) part(r *http.Request, k keyPart) (v string) {
	switch k.kind {
	case "ip":
		v = g.Address(r)
	case "user":
		v, _ = g.o.User(r)
	case "merchant":
		v = g.o.Merchant(r)
	case "route":
		v = g.o.Route(r)
	case "header":
		v = r.Header.Get(k.name)
	case "param":
		v = g.o.Param(r, k.name)
	}
	if v == "" {
		return missingPart
	}
	return v
}
