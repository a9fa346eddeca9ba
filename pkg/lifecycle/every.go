package lifecycle

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	roundTimeout = 2 * time.Minute        // of one round, unless it has its own
	firstRetry   = 200 * time.Millisecond // pause after the first failed round; doubles
	longestRetry = 2 * time.Second        // longest pause, so that work resumes soon after an outage
)

// Every returns a component that runs a round of work at each interval until the process ends. A failed round is
// retried after a growing pause, never sooner than interval. Failures are logged as Failures does.
// Pauses have jitter, so that instances do not run in lockstep.
func Every(name string, interval time.Duration, log *slog.Logger, round func(context.Context) error) Component {
	return EveryOrWoken(name, interval, nil, log, round)
}

// EveryWithin is Every with rounds that may take longer: up to timeout.
func EveryWithin(
	name string, interval, timeout time.Duration, log *slog.Logger, round func(context.Context) error,
) Component {
	return every(name, interval, timeout, nil, log, round)
}

// EveryOrWoken is Every with a further round, at once, for each value of wake. It may be nil.
func EveryOrWoken(
	name string, interval time.Duration, wake <-chan struct{}, log *slog.Logger, round func(context.Context) error,
) Component {
	return every(name, interval, roundTimeout, wake, log, round)
}

func every(
	name string, interval, timeout time.Duration, wake <-chan struct{}, log *slog.Logger,
	round func(context.Context) error,
) Component {
	return Component{Name: name, Run: func(ctx context.Context) error {
		var failures Failures
		for {
			wait := interval
			if n := failures.InARow(); n > 0 {
				wait = max(interval, min(firstRetry<<min(n-1, 10), longestRetry))
			}
			wait += rand.N(wait/4 + 1) //nolint:gosec // no secret depends on it
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			case <-wake:
				timer.Stop()
			}
			bounded, cancel := context.WithTimeout(ctx, timeout)
			err := round(bounded)
			cancel()
			if ctx.Err() != nil {
				return nil // also if the round failed
			}
			failures.Observe(ctx, log, name, err)
		}
	}}
}

// AtEnd returns a component that waits for the end of the process and then calls end with a DrainContext. It goes
// before the components that use what end closes.
func AtEnd(name string, end func(ctx context.Context) error) Component {
	return Component{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		out, cancel := DrainContext(ctx)
		defer cancel()
		return end(out)
	}}
}
