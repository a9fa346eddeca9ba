// Package core holds the rules of the ledger: how purchases land, how orders' events and closings change their rows,
// what dead letters and epochs do to them. It also has the types that the packages beside it share. It imports the
// standard library, the contract and ledger only.
package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// Timing holds the pauses and time windows of the rules.
type Timing struct {
	RepublishAfter time.Duration // after the landing, when a deduction without an order is first due again
	// ResettleWindow is twice the longest replication lag of a replica that becomes the Redis master: the new master
	// may lack the effects of changes from so long before the old one was last confirmed.
	ResettleWindow time.Duration
	Pause          time.Duration // first pause between attempts within one delivery
}

// DefaultTiming returns the defaults.
func DefaultTiming() Timing {
	return Timing{
		RepublishAfter: time.Minute, ResettleWindow: 10 * time.Minute, Pause: 50 * time.Millisecond,
	}
}

// Deps are the ports and settings of a Service.
type Deps struct {
	Store       Store
	DeadLetters DeadLetters
	Gate        Gate
	Pub         Publisher
	Orders      Orders
	Recorder    Recorder
	Gates       Gates
	Incidents   *Incidents
	Guard       Guard
	HoldBack    Decorator
	Now         func() time.Time // clock of the process; see Service.clock
	Timing      Timing
}

// Service holds the rules of the ledger: landing, order events, closings, dead letters and epochs. It is safe for
// concurrent use.
type Service struct {
	Deps
	// clock is that of the process, with the times of the tables. It decides how long a process keeps what it has read and
	// stamps records for operators. Everything else is decided by Store.Now.
	clock        func() time.Time
	descriptions descriptions
}

// New makes the service.
func New(d Deps) *Service {
	return &Service{Deps: d, clock: TableTime(d.Now)}
}

// TableTime returns a clock whose times are as the tables keep them: UTC, in milliseconds.
func TableTime(clock func() time.Time) func() time.Time {
	return func() time.Time { return Milliseconds(clock()) }
}

func (s *Service) retry(ctx context.Context, work func() error) error {
	return Retry(ctx, s.Timing.Pause, work)
}

// Retry runs work up to three times within one delivery, with a growing pause. Work that fails three times is retried
// with the redelivered message. So a short failure costs no redelivery, and a long one does not block a handler.
func Retry(ctx context.Context, pause time.Duration, work func() error) error {
	for attempt := 1; ; attempt++ {
		err := work()
		if err == nil || attempt == 3 {
			return err
		}
		if Sleep(ctx, pause+rand.N(pause+1)) != nil { //nolint:gosec // no secret depends on it
			return err
		}
		pause *= 3
	}
}

// InSpan runs work inside a span of the trace.
func InSpan(
	ctx context.Context, recorder Spans, name string, database bool, work func(ctx context.Context) error,
) error {
	ctx, end := recorder.Span(ctx, name, database)
	err := work(ctx)
	end(err)
	return err
}

// Spans begins spans of traces; the returned function ends a span.
type Spans interface {
	Span(ctx context.Context, name string, database bool) (context.Context, func(error))
}

// Sleep waits for d. It returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
