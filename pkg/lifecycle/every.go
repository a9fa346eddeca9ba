package lifecycle

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	roundTimeout = 2 * time.Minute        // of one round
	firstRetry   = 200 * time.Millisecond // after a round that failed; doubles
	longestRetry = 2 * time.Second        // how long after an outage the work may go on resting
)

// Every is a component that runs a round of work again and again, for as long as the process lives. What fails is tried
// again after a growing pause, never sooner than interval; an outage is logged when it begins and when it ends. Pauses
// have jitter, so that instances do not work in step.
func Every(name string, interval time.Duration, log *slog.Logger, round func(context.Context) error) Component {
	return Component{Name: name, Run: func(ctx context.Context) error {
		failures := 0
		for {
			wait := interval
			if failures > 0 {
				wait = max(interval, min(firstRetry<<min(failures-1, 10), longestRetry))
			}
			wait += rand.N(wait/4 + 1) //nolint:gosec // no secret depends on it
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			}
			bounded, cancel := context.WithTimeout(ctx, roundTimeout)
			err := round(bounded)
			cancel()
			switch {
			case ctx.Err() != nil:
				return nil // whatever became of the round
			case err != nil:
				failures++
				if failures == 1 {
					log.WarnContext(ctx, "a round failed and is tried again", "loop", name, "error", err)
				}
			case failures > 0:
				log.InfoContext(ctx, "works again", "loop", name, "failures", failures)
				failures = 0
			}
		}
	}}
}

// AtEnd is a component that does nothing until the process ends, and then calls end, which may take as long as the
// time to drain lasts. It belongs before the components that use what end closes.
func AtEnd(name string, end func(ctx context.Context) error) Component {
	return Component{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		out, cancel := DrainContext(ctx)
		defer cancel()
		return end(out)
	}}
}
