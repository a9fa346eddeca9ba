package inventory

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"flashsale.internal/pkg/lifecycle"
)

const (
	roundTimeout = 2 * time.Minute  // of one round of a loop
	maxPause     = 30 * time.Second // between rounds that fail
)

// every runs a round of work again and again, for as long as the process lives. What fails is tried again after a
// growing pause; an outage is logged when it begins and when it ends.
func every(name string, interval time.Duration, log *slog.Logger, round func(context.Context) error) lifecycle.Component {
	return lifecycle.Component{Name: name, Run: func(ctx context.Context) error {
		failures := 0
		for {
			wait := interval + rand.N(interval/4+1) //nolint:gosec // no secret depends on it
			if failures > 0 {
				wait = min(max(interval, 200*time.Millisecond<<min(failures-1, 10)), max(interval, maxPause))
				wait += rand.N(wait/4 + 1) //nolint:gosec // no secret depends on it
			}
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
				return nil
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
