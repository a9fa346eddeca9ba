package fairness

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/ratelimit"
)

// limits are the production rules of the services that buyers of one sale meet, with the simulated clock. One pod counts
// for all: with more pods a local rule admits more.
type limits struct {
	rules map[string]*rule
	at    func() time.Duration
}

type rule struct {
	*ratelimit.Local
	wait time.Duration
}

var ruleNames = []string{
	"path-per-ip", "path-per-user", "path-click", "path-activity", "purchase-per-ip", "purchase-per-user",
	"room-per-ip", "room-per-user",
}

// newLimits returns the limits by the clock at, which counts from the start of the sale. scale divides the bucket of the
// activity, for a smaller population.
func newLimits(at func() time.Duration, scale int) (*limits, error) {
	begin := time.Unix(1_800_000_000, 0)
	l := &limits{rules: map[string]*rule{}, at: at}
	for _, r := range admission.Production() {
		spec, err := r.Spec()
		if err != nil {
			continue // a rule for concurrent requests; none of them is used here
		}
		if r.Name == "path-activity" {
			spec.Rate /= int64(scale)
		}
		limiter, err := ratelimit.NewLocal(spec, ratelimit.WithClock(func() time.Time { return begin.Add(at()) }))
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		l.rules[r.Name] = &rule{limiter, time.Duration(r.MaxWait)}
	}
	for _, name := range ruleNames {
		if l.rules[name] == nil {
			return nil, fmt.Errorf("the rules of production have no %s", name)
		}
	}
	return l, nil
}

// take charges a rule. It returns the wait for the permit, or, of a refusal, the time after which to repeat the call.
func (l *limits) take(name, key string) (ok bool, after time.Duration) {
	r := l.rules[name]
	res, err := r.Take(context.Background(), ratelimit.Request{Key: key, N: 1, MaxWait: r.wait})
	if err != nil {
		panic(err) // unreachable: a local limiter only refuses negative costs
	}
	if res.Allowed {
		return true, res.Wait
	}
	return false, max(res.RetryAfter, time.Millisecond)
}
