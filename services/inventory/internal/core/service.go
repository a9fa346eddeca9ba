package core

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// Timing holds the thresholds of what is repeated.
type Timing struct {
	RepublishAfter         time.Duration // first repetition of a deduction without an order; doubles up to RepublishCap
	RepublishCap           time.Duration
	AbandonAfter           time.Duration // a row without an order is given up after this
	AskAfter               time.Duration // a row still reserved so long past its pay window is asked about; doubles up to AskCap
	AskCap                 time.Duration
	RejournalAfter         time.Duration // first re-journaling of an entry absent from the ledger; doubles up to RejournalCap
	RejournalCap           time.Duration
	ResumeAfter            time.Duration // an adjustment left in intent is resumed after this
	ResettleWindow         time.Duration // how far back rows are settled again before a refusal is dropped
	PayingAgainAfter       time.Duration // when order names no time for an order that is being paid
	Pause                  time.Duration // first pause between tries within one delivery
	ReconcileGrace         time.Duration // what the ledger changed more recently is still on its way to the gate
	ReconcilePause         time.Duration // between two looks at what disagrees
	ReconcileConfirmations int           // so many looks must find the same before a counter is corrected
}

// DefaultTiming is what the design says.
func DefaultTiming() Timing {
	return Timing{
		RepublishAfter: time.Minute, RepublishCap: 30 * time.Minute, AbandonAfter: 24 * time.Hour,
		AskAfter: 10 * time.Minute, AskCap: time.Hour,
		RejournalAfter: time.Minute, RejournalCap: 30 * time.Minute, ResumeAfter: 20 * time.Second,
		ResettleWindow: 10 * time.Minute, PayingAgainAfter: 5 * time.Second, Pause: 50 * time.Millisecond,
		ReconcileGrace: 10 * time.Second, ReconcilePause: 2 * time.Second, ReconcileConfirmations: 3,
	}
}

// Deps is what a Service works with.
type Deps struct {
	Store    Store
	Gate     Gate
	Pub      Publisher
	Orders   Orders
	Locks    Locks
	Recorder Recorder
	Now      func() time.Time
	Timing   Timing
}

// Service is the inventory.
type Service struct {
	Deps

	mu        sync.Mutex
	resettled map[contract.GateRef]resettleMark
	journaled map[string]repeatMark          // order_sn -> how often it was journaled again
	asked     map[string]repeatMark          // order_sn -> how often order was asked about it again
	overdue   map[string]*ReservationPlace   // where the next look at an activity's overdue rows begins; absent: with the oldest
	swept     map[contract.GateRef]time.Time // where the next look at a gate's unlanded entries begins; absent: with the oldest
	master    *master                        // the Redis master that has heard everything
	unhealed  map[contract.GateRef]time.Time // gates that a new master has not heard about, and since when they have to be told
	alarms    map[string]time.Time           // when something that stays wrong was last told
	tidied    time.Time                      // when alarms long past were last forgotten
	looked    map[string]lookedAt            // when activities were last reconciled
	rushSince time.Time                      // since when the reconciler gives way to a rush; zero: it does not
}

// New makes the service.
func New(d Deps) *Service {
	return &Service{
		Deps: d, resettled: map[contract.GateRef]resettleMark{}, journaled: map[string]repeatMark{}, asked: map[string]repeatMark{}, overdue: map[string]*ReservationPlace{}, swept: map[contract.GateRef]time.Time{},
		unhealed: map[contract.GateRef]time.Time{}, alarms: map[string]time.Time{}, looked: map[string]lookedAt{},
	}
}

// now is the time as the tables keep it.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// retry repeats work a few times within one delivery, with a growing pause. What still fails then comes again with the
// message, so a short hiccup does not cost a redelivery and a long one does not hold a handler.
func (s *Service) retry(ctx context.Context, work func() error) error {
	pause := s.Timing.Pause
	for attempt := 1; ; attempt++ {
		err := work()
		if err == nil || attempt == 3 {
			return err
		}
		t := time.NewTimer(pause + rand.N(pause+1)) //nolint:gosec // no secret depends on it
		select {
		case <-ctx.Done():
			t.Stop()
			return err
		case <-t.C:
		}
		pause *= 3
	}
}

func doubled(first, limit time.Duration, times int) time.Duration {
	d := first
	for i := 0; i < times && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}

// chunks calls fn with pieces of at most n.
func chunks[T any](all []T, n int, fn func([]T) error) error {
	for len(all) > 0 {
		k := min(n, len(all))
		if err := fn(all[:k]); err != nil {
			return err
		}
		all = all[k:]
	}
	return nil
}
