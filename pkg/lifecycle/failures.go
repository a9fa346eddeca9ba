package lifecycle

import (
	"context"
	"log/slog"
	"time"
)

// stillFailsEvery is the interval of the lines about work that goes on failing.
const stillFailsEvery = time.Minute

// Failures logs work that is repeated while it fails: its first failure, then one a minute, and the success that ends
// them. The zero value is ready. It is not safe for concurrent use.
type Failures struct {
	inARow          int
	since, loggedAt time.Time
}

// InARow returns the number of failures since the last success.
func (f *Failures) InARow() int { return f.inARow }

// Observe logs the outcome of an attempt if a line is due, with the attributes of log. work begins the message: "<work>
// failed, will retry".
func (f *Failures) Observe(ctx context.Context, log *slog.Logger, work string, err error) {
	now := time.Now()
	switch {
	case err == nil && f.inARow == 0:
	case err == nil:
		log.InfoContext(ctx, work+" works again", "failures", f.inARow, "since", f.since)
		*f = Failures{}
	case f.inARow == 0:
		*f = Failures{inARow: 1, since: now.UTC(), loggedAt: now}
		log.WarnContext(ctx, work+" failed, will retry", "error", err)
	default:
		f.inARow++
		if now.Sub(f.loggedAt) >= stillFailsEvery {
			f.loggedAt = now
			log.WarnContext(ctx, work+" still fails", "failures", f.inARow, "since", f.since, "error", err)
		}
	}
}
