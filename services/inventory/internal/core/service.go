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
	Store    Store
	Gate     Gate
	Pub      Publisher
	Orders   Orders
	Refunds  Refunds
	Recorder Recorder
	Gates    Gates
	Alarms   *Alarms
	Guard    Guard
	HoldBack Decorator
	Now      func() time.Time // clock of the process; see Service.clock
	Timing   Timing
	Quotas   Quotas
}

// Service holds the rules of the inventory: landing, order events, closings, activities, stock and dead letters. The
// sweeps and the gate controller are structs of their own, which work through it. It is safe for concurrent use.
type Service struct {
	Alarms *Alarms
	Gates  Gates

	store    Store
	gate     Gate
	pub      Publisher
	orders   Orders
	refunds  Refunds
	recorder Recorder
	// clock is that of the process. It decides how long a process keeps what it has read and when it repeats an alarm,
	// and it stamps records for operators. Everything else is decided by Store.Now.
	clock  func() time.Time
	timing Timing
	quotas Quotas
	counts restCache[counted, ReservationCounts]
	abuse  restCache[string, Abuse] // by activity

	guard        Guard
	holdBack     Decorator
	descriptions descriptions
}

// New makes the service.
func New(d Deps) *Service {
	now := TableTime(d.Now)
	return &Service{
		Alarms: d.Alarms, Gates: d.Gates, guard: d.Guard, holdBack: d.HoldBack,
		store: d.Store, gate: d.Gate, pub: d.Pub, orders: d.Orders,
		refunds: d.Refunds, recorder: d.Recorder, clock: now, timing: d.Timing, quotas: d.Quotas,
	}
}

// TableTime returns a clock whose times are as the tables keep them: UTC, in milliseconds.
func TableTime(clock func() time.Time) func() time.Time {
	return func() time.Time { return ms(clock()) }
}

func (s *Service) retry(ctx context.Context, work func() error) error {
	return Retry(ctx, s.timing.Pause, work)
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
