// Package rules provides named limits. They are written in a YAML file or kept in Redis, declared on routes by name,
// and can change at run time.
//
//	limits := rules.New(rules.Options{Conn: conn, User: userOf})
//	err := limits.Apply(set)
//	r.With(limits.On("path-per-user", "path-total")).Post("/paths", handler)
package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"
	"time"

	"flashsale.internal/pkg/ratelimit"
)

// Concurrency is the algorithm of rules that limit concurrent requests.
const Concurrency = "concurrency"

// Rule is one named limit.
type Rule struct {
	// Name has 1 to 64 characters of a-z, 0-9, - and _. It identifies the limit in Redis, in HTTP fields and in
	// metrics.
	Name string `yaml:"name" json:"name"`
	// Algorithm is token_bucket (default), gcra, leaky_bucket, leaky_queue, fixed_window, sliding_window, sliding_log,
	// warm_up or concurrency.
	Algorithm string `yaml:"algorithm,omitempty" json:"algorithm,omitempty"`
	// Limit is the number of permits Per period; with concurrency, the number of concurrent requests. 0 needs RefuseAll.
	Limit int64 `yaml:"limit" json:"limit"`
	// RefuseAll refuses every request. Limit is then 0.
	RefuseAll bool `yaml:"refuse_all,omitempty" json:"refuse_all,omitempty"`
	// Per is the period (default 1s).
	Per Duration `yaml:"per,omitempty" json:"per,omitempty"`
	// Burst is the number of permits available at once (default: Limit); with leaky_queue, the length of the queue.
	Burst int64 `yaml:"burst,omitempty" json:"burst,omitempty"`
	// Key is the subject of the limit: all (default), ip, user, merchant, route, header:<name>, param:<name of a path
	// parameter>, or several of them joined by +, for example user+param:activity_id. Requests that lack a part share
	// one limit.
	Key string `yaml:"key,omitempty" json:"key,omitempty"`
	// Cost is the number of permits that a request takes (default 1).
	Cost int64 `yaml:"cost,omitempty" json:"cost,omitempty"`
	// MaxWait is the longest wait of a request for its permits, or its slot, before it is refused (default: none).
	MaxWait Duration `yaml:"max_wait,omitempty" json:"max_wait,omitempty"`
	// Queue is the number of requests that may wait at the same time (concurrency only; default: Limit).
	Queue int64 `yaml:"queue,omitempty" json:"queue,omitempty"`
	// Shadow counts what the rule would refuse and refuses nothing.
	Shadow bool `yaml:"shadow,omitempty" json:"shadow,omitempty"`
	// Where is redis (default: all processes share the limit) or local (each process has its own).
	Where string `yaml:"where,omitempty" json:"where,omitempty"`
	// OnFailure is the behaviour while Redis is unreachable: local (default: the share of this process), open or
	// closed.
	OnFailure string `yaml:"on_failure,omitempty" json:"on_failure,omitempty"`
	// Lease is the fraction of the limit, at most 0.01, that a process fetches in advance (default 0: one query for
	// each request).
	Lease float64 `yaml:"lease,omitempty" json:"lease,omitempty"`
	// Inherit is how spent permits are carried over when the limit changes: as_is (default) or in_proportion.
	Inherit string `yaml:"inherit,omitempty" json:"inherit,omitempty"`
	// Buckets is the number of buckets of a sliding_window (default 10).
	Buckets int `yaml:"buckets,omitempty" json:"buckets,omitempty"`
	// WarmUp and ColdFactor are the parameters of warm_up (default 10s and 3).
	WarmUp     Duration `yaml:"warm_up,omitempty" json:"warm_up,omitempty"`
	ColdFactor float64  `yaml:"cold_factor,omitempty" json:"cold_factor,omitempty"`
}

// Duration is a time.Duration written as 1s or 1m30s.
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration (for example 500ms)", b)
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String formats the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// Set is all rules of a file or of Redis.
type Set struct {
	Version int    `yaml:"version" json:"version"` // of the format: 1
	Rules   []Rule `yaml:"rules" json:"rules"`
	// Deleted names rules of the file that are not in force. Only sets in Redis may have it.
	Deleted []string `yaml:"deleted,omitempty" json:"deleted,omitempty"`
}

const (
	formatVersion = 1
	maxRules      = 1000
	maxMaxWait    = time.Minute
)

var (
	namePattern  = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)
	paramPattern = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	fieldPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*.^_`|~-]{1,64}$")
)

// Validate returns everything that is wrong with the set.
func (s *Set) Validate() error {
	var errs []error
	if s.Version != formatVersion {
		errs = append(errs, fmt.Errorf("version %d is not %d", s.Version, formatVersion))
	}
	if len(s.Rules) > maxRules {
		errs = append(errs, fmt.Errorf("too many rules: %d, maximum %d", len(s.Rules), maxRules))
	}
	seen := map[string]bool{}
	for i := range s.Rules {
		r := &s.Rules[i]
		if err := r.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("rule %q: %w", r.Name, err))
		}
		if seen[r.Name] {
			errs = append(errs, fmt.Errorf("rule %q is defined twice", r.Name))
		}
		seen[r.Name] = true
	}
	for _, name := range s.Deleted {
		if seen[name] {
			errs = append(errs, fmt.Errorf("rule %q is both defined and deleted", name))
		}
	}
	return errors.Join(errs...)
}

// Validate returns everything that is wrong with the rule.
func (r *Rule) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(r.Name) {
		bad("name is not 1 to 64 of a-z, 0-9, - and _")
	}
	if _, err := parseKey(r.Key); err != nil {
		errs = append(errs, err)
	}
	switch {
	case r.Limit < 0:
		bad("limit %d is below 0", r.Limit)
	case r.Limit == 0 && !r.RefuseAll:
		bad("limit 0 refuses every request: it needs refuse_all: true")
	case r.Limit > 0 && r.RefuseAll:
		bad("refuse_all needs limit 0")
	}
	if r.Cost < 0 {
		bad("cost %d is below 0", r.Cost)
	}
	if r.MaxWait < 0 || time.Duration(r.MaxWait) > maxMaxWait {
		bad("max_wait %s is not between 0 and %s", r.MaxWait, maxMaxWait)
	}
	switch r.Where {
	case "", "redis", "local":
	default:
		bad("where %q is neither redis nor local", r.Where)
	}
	if _, err := r.onFailure(); err != nil {
		errs = append(errs, err)
	}
	if r.Algorithm == Concurrency {
		r.validateConcurrency(bad)
	} else {
		r.validateRate(bad)
	}
	return errors.Join(errs...)
}

func (r *Rule) validateConcurrency(bad func(string, ...any)) {
	if r.Per != 0 || r.Burst != 0 || r.Cost > 1 || r.Lease != 0 || r.Inherit != "" ||
		r.Buckets != 0 || r.WarmUp != 0 || r.ColdFactor != 0 {
		bad("concurrency does not allow per, burst, cost above 1, lease, inherit, buckets, warm_up or cold_factor")
	}
	if r.Shadow {
		bad("concurrency has no shadow mode: " +
			"a request that it would refuse holds no slot, so later decisions would be wrong")
	}
	if r.Limit > 100_000 || r.Queue < 0 || r.Queue > 100_000 {
		bad("limit %d and queue %d are not between 0 and 100000", r.Limit, r.Queue)
	}
}

func (r *Rule) validateRate(bad func(string, ...any)) {
	if r.Queue != 0 {
		bad("only concurrency has a queue")
	}
	if !(r.Lease >= 0 && r.Lease <= 0.01) {
		bad("lease %v is not between 0 and 0.01", r.Lease)
	}
	if r.Lease > 0 && r.Where == "local" {
		bad("lease needs where: redis")
	}
	s, err := r.Spec()
	switch {
	case err != nil:
		bad("%w", err)
		return
	case r.Lease > 0 && !s.Algorithm.Leases():
		bad("%s cannot be leased", s.Algorithm)
	case r.MaxWait > 0 && !s.Algorithm.Reserves():
		bad("%s takes no reservations, so max_wait has no effect", s.Algorithm)
	}
	if r.Limit == 0 { // all requests are refused: the other numbers only have to be possible
		s.Rate = 1
		if s.Burst == 0 && !s.Algorithm.Reserves() {
			s.Burst = 1
		}
	}
	if err := s.Validate(); err != nil {
		bad("%w", err)
		return
	}
	if most := s.MaxCost(); r.Limit > 0 && r.cost() > most {
		bad("cost %d can never be granted at once, at most %d", r.cost(), most)
	}
}

func (r *Rule) cost() int64 { return max(1, r.Cost) }

// Spec returns the limit of a rule with a rate, for a limiter. It is an error for other algorithms.
func (r *Rule) Spec() (ratelimit.Spec, error) {
	s := ratelimit.Spec{
		Algorithm: ratelimit.TokenBucket,
		Limit:     ratelimit.Limit{Rate: r.Limit, Period: time.Duration(r.Per), Burst: r.Burst},
		Buckets:   r.Buckets, WarmUp: time.Duration(r.WarmUp), ColdFactor: r.ColdFactor,
	}
	if r.Per == 0 {
		s.Period = time.Second
	}
	if r.Algorithm != "" {
		a, err := ratelimit.ParseAlgorithm(r.Algorithm)
		if err != nil {
			return s, fmt.Errorf("%w, %s", err, Concurrency)
		}
		s.Algorithm = a
	}
	if s.Algorithm.Reserves() {
		s.MaxWait = time.Duration(r.MaxWait)
	}
	switch r.Inherit {
	case "", "as_is":
	case "in_proportion":
		s.Inherit = ratelimit.InProportion
	default:
		return s, fmt.Errorf("inherit %q is neither as_is nor in_proportion", r.Inherit)
	}
	return s, nil
}

func (r *Rule) onFailure() (ratelimit.FailurePolicy, error) {
	switch r.OnFailure {
	case "", "local":
		return ratelimit.FailLocal, nil
	case "open":
		return ratelimit.FailOpen, nil
	case "closed":
		return ratelimit.FailClosed, nil
	default:
		return 0, fmt.Errorf("on_failure %q is not one of local, open, closed", r.OnFailure)
	}
}

// keyPart is one part of the subject of a limit.
type keyPart struct{ kind, name string }

func parseKey(key string) ([]keyPart, error) {
	if key == "" || key == "all" {
		return nil, nil
	}
	var parts []keyPart
	for p := range strings.SplitSeq(key, "+") {
		kind, name, named := strings.Cut(p, ":")
		switch {
		case (kind == "ip" || kind == "user" || kind == "merchant" || kind == "route") && !named:
		case kind == "header" && fieldPattern.MatchString(name):
			name = textproto.CanonicalMIMEHeaderKey(name)
		case kind == "param" && paramPattern.MatchString(name):
		default:
			return nil, fmt.Errorf("key %q: %q is not one of ip, user, merchant, route, header:<name>, param:<name>; "+
				"all cannot be combined", key, p)
		}
		parts = append(parts, keyPart{kind, name})
	}
	if len(parts) > 8 {
		return nil, fmt.Errorf("key %q has more than 8 parts", key)
	}
	return parts, nil
}

// String returns the rule as JSON.
func (r Rule) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return r.Name
	}
	return string(b)
}
