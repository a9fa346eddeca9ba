package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lease is the watchdog of the locks of one call. One goroutine renews them all, and one timer fires before the first
// of them can expire. That cutoff is a separate timer, so that a hanging renewal cannot delay it.
type lease struct {
	ttl  time.Duration
	lose context.CancelCauseFunc // cancels the context of work

	ctx    context.Context // of the renewals; ends with the lease, or with the loss
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	held    []*hold // until of each is guarded by mu too
	cutoff  *time.Timer
	failure error // of the latest renewal, nil if it succeeded
	lost    error
	ended   bool
}

// newLease returns a lease without locks. Adding the first lock starts its goroutine.
func newLease(ctx context.Context, ttl time.Duration, lose context.CancelCauseFunc) *lease {
	s := &lease{ttl: ttl, lose: lose, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// margin is the time between the loss of a lock, which cancels work, and the expiry of its key.
func (s *lease) margin() time.Duration { return s.ttl / 10 }

// add starts the renewal of a lock. It must be called by the goroutine that calls end.
func (s *lease) add(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, h)
	if s.cutoff == nil {
		s.cutoff = time.AfterFunc(time.Until(h.until)-s.margin(), s.onCutoff)
		go s.keep()
		return
	}
	s.cutoff.Reset(time.Until(s.first()) - s.margin())
}

// first returns the time at which the first of the locks can expire.
func (s *lease) first() time.Time {
	return slices.MinFunc(s.held, func(a, b *hold) int { return a.until.Compare(b.until) }).until
}

// onCutoff cancels work if a lock is about to expire.
func (s *lease) onCutoff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.first()) > s.margin() {
		return // renewed meanwhile, and the cutoff was reset
	}
	err := errors.New("it could not be renewed in time")
	if s.failure != nil {
		err = fmt.Errorf("%w: %w", err, s.failure)
	}
	for _, h := range s.held {
		if time.Until(h.until) <= s.margin() {
			s.lostOne(h.name, err)
			return
		}
	}
}

// lostOne cancels work because of a lost lock. Later losses are ignored.
func (s *lease) lostOne(name string, err error) {
	if s.lost != nil || s.ended {
		return
	}
	s.lost = lostBecause(name, err)
	s.lose(s.lost)
	s.cancel()
}

// lostBecause does not wrap err: it may be a time-out of this package, which must not be mistaken for the end of the
// caller's context.
func lostBecause(name string, err error) error {
	return fmt.Errorf("lock %s: %w: %s", name, ErrLost, err.Error())
}

// keep renews until the lease has ended or is lost.
func (s *lease) keep() {
	defer close(s.done)
	timer := time.NewTimer(s.pause())
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-timer.C:
		}
		if s.renew() {
			timer.Reset(s.pause())
		} else { // Redis is unavailable: retry sooner, until the cutoff
			timer.Reset(jittered(s.ttl / 15))
		}
	}
}

// pause returns the time until a third of the TTL has passed, reduced by jitter so that leases do not run in lockstep.
func (s *lease) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(jittered(s.ttl/15)-s.ttl/15+time.Until(s.first())-s.ttl*2/3, s.ttl/50)
}

// renew renews all locks concurrently and reports whether Redis decided about all of them.
func (s *lease) renew() bool {
	s.mu.Lock()
	held := slices.Clone(s.held)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, s.ttl/5)
	defer cancel()
	untils, errs := make([]time.Time, len(held)), make([]error, len(held))
	var wg sync.WaitGroup
	for i, h := range held {
		wg.Go(func() { untils[i], errs[i] = h.renew(ctx) })
	}
	wg.Wait()

	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = nil
	for i, h := range held {
		switch {
		case errs[i] == nil:
			h.until = untils[i]
		case errors.Is(errs[i], errNotHeld):
			s.lostOne(h.name, errs[i])
		default:
			s.failure = errs[i]
		}
	}
	if s.lost == nil && !s.ended {
		s.cutoff.Reset(time.Until(s.first()) - s.margin())
	}
	return s.failure == nil
}

// end stops the renewal and waits for one in flight: no lock is renewed after its release. It returns the locks, and
// the error with which work was cancelled, nil if no lock was lost.
func (s *lease) end() ([]*hold, error) {
	s.cancel()
	s.mu.Lock()
	s.ended = true
	running := s.cutoff != nil
	s.mu.Unlock()
	if running {
		<-s.done
		s.cutoff.Stop()
	}
	return s.held, s.lost
}
