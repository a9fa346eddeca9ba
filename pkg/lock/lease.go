package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lease is the watchdog of the locks that one call has: one goroutine renews them all, and one alarm goes off before the
// first of them may have expired. The alarm is a timer of its own, since a renewal that hangs must not delay it.
type lease struct {
	ttl  time.Duration
	lose context.CancelCauseFunc // tells work

	ctx    context.Context // of the renewals; ends with the lease, or with the loss
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine is gone

	mu      sync.Mutex
	held    []*hold // until of each is guarded by mu too
	alarm   *time.Timer
	trouble error // why the latest renewal brought nothing, nil if it did
	lost    error
	ended   bool
}

// newLease starts nothing; the first lock that is added does.
func newLease(ctx context.Context, ttl time.Duration, lose context.CancelCauseFunc) *lease {
	s := &lease{ttl: ttl, lose: lose, done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// margin is how long before the end of a lock work is told that it is lost.
func (s *lease) margin() time.Duration { return s.ttl / 10 }

// add has the lock renewed from now on. Only the one who will end the lease may call it.
func (s *lease) add(h *hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, h)
	if s.alarm == nil {
		s.alarm = time.AfterFunc(time.Until(h.until)-s.margin(), s.ring)
		go s.keep()
		return
	}
	s.alarm.Reset(time.Until(s.first()) - s.margin())
}

// first is when the first of the locks may expire.
func (s *lease) first() time.Time {
	return slices.MinFunc(s.held, func(a, b *hold) int { return a.until.Compare(b.until) }).until
}

// ring is the alarm.
func (s *lease) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.first()) > s.margin() {
		return // renewed meanwhile, and set anew
	}
	err := errors.New("it could not be renewed in time")
	if s.trouble != nil {
		err = fmt.Errorf("%w: %w", err, s.trouble)
	}
	for _, h := range s.held {
		if time.Until(h.until) <= s.margin() {
			s.lostOne(h.name, err)
			return
		}
	}
}

// lostOne tells work that it is over. The first loss counts.
func (s *lease) lostOne(name string, err error) {
	if s.lost != nil || s.ended {
		return
	}
	s.lost = lostBecause(name, err)
	s.lose(s.lost)
	s.cancel()
}

// lostBecause does not wrap the reason: it may be a time-out of ours, which must not look like the end of the caller's
// context.
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
		} else { // Redis does not answer: sooner again, until the alarm
			timer.Reset(jittered(s.ttl / 15))
		}
	}
}

// pause is how long to wait until a third of the TTL is over, a little less so that many leases do not go in step.
func (s *lease) pause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(jittered(s.ttl/15)-s.ttl/15+time.Until(s.first())-s.ttl*2/3, s.ttl/50)
}

// renew renews all locks at once, and tells whether all of them were.
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
	s.trouble = nil
	for i, h := range held {
		switch {
		case errs[i] == nil:
			h.until = untils[i]
		case errors.Is(errs[i], errGone):
			s.lostOne(h.name, errs[i])
		default:
			s.trouble = errs[i]
		}
	}
	if s.lost == nil && !s.ended {
		s.alarm.Reset(time.Until(s.first()) - s.margin())
	}
	return s.trouble == nil
}

// end stops renewing and waits for a renewal that is under way: nothing is renewed after it is given back. It says which
// locks there were, and why work was told that they are lost, if it was.
func (s *lease) end() ([]*hold, error) {
	s.cancel()
	s.mu.Lock()
	s.ended = true
	running := s.alarm != nil
	s.mu.Unlock()
	if running {
		<-s.done
		s.alarm.Stop()
	}
	return s.held, s.lost
}
