package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
)

const (
	// deniedFor is for how long a denial holds after the last refused call.
	deniedFor = 10 * time.Second
	// deniedLogInterval is the interval of the log lines of a denial.
	deniedLogInterval = time.Minute
)

// Access observes whether a dependency lets this process in. It is safe for concurrent use.
type Access struct {
	kind, of  string
	log       *slog.Logger
	incidents metric.Int64Counter

	served atomic.Bool // a call has succeeded

	mu                           sync.Mutex
	servedAt, deniedAt, loggedAt time.Time
	denial                       error
	settled                      bool
}

// NewAccess returns the Access of a dependency of a kind, such as redis. of distinguishes several of that kind and may
// be empty. While calls are denied, Access logs an error and counts an incident once a minute.
func NewAccess(kind, of string, log *slog.Logger, incidents metric.Int64Counter) *Access {
	a := &Access{kind: kind, log: log, incidents: incidents}
	if of != "" {
		a.of, a.log = " of the "+of, log.With(kind, of)
	}
	return a
}

// Ready returns the denial while a process that has just started is not let in, so that a rollout with wrong settings
// stops. Once it was let in for 10 s, Ready returns nil for ever: a later denial is an outage, in which the process
// responds by itself.
func (a *Access) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	switch {
	case a.settled:
	case !a.deniedAt.IsZero() && now.Sub(a.deniedAt) < deniedFor:
		return fmt.Errorf("%s%s denies access: %w", a.kind, a.of, a.denial)
	case a.served.Load() && now.Sub(a.servedAt) >= deniedFor:
		a.settled = true
	}
	return nil
}

// Served records a call that was let in.
func (a *Access) Served() {
	if !a.served.Load() {
		a.mu.Lock()
		a.servedAt = time.Now()
		a.mu.Unlock()
		a.served.Store(true)
	}
}

// Denied records a call that was denied. An error that ends without an operator is no denial.
func (a *Access) Denied(ctx context.Context, denial error) {
	now := time.Now()
	a.mu.Lock()
	a.deniedAt, a.denial = now, denial
	due := now.Sub(a.loggedAt) >= deniedLogInterval
	if due {
		a.loggedAt = now
	}
	a.mu.Unlock()
	if due {
		a.incidents.Add(ctx, 1)
		a.log.ErrorContext(ctx, a.kind+" denies access", "error", denial)
	}
}
