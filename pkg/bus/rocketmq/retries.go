package rocketmq

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// While no message of a subscription is handled, one waiting message at a time is retried: first after firstRetry,
	// then less often, up to every maxRetryPause. That bounds both the time until work resumes and the load of the
	// retries on the dependency that is down.
	firstRetry, maxRetryPause = 500 * time.Millisecond, 1250 * time.Millisecond
	// maxWaiting bounds the messages of one topic that wait in this process for a retry.
	maxWaiting = 60
	// holdFor is how long a message waits in this process, from its first failure on, before it goes back to the
	// broker. It also bounds the time for which messages that fail by themselves can occupy all places and delay the
	// others. It is far below clientTimeout.
	holdFor = time.Minute
)

// retries distinguishes a message that fails by itself from an outage of a dependency that all messages of a
// subscription need: in an outage no message is handled. A message that fails while others are handled goes back to
// the broker and is redelivered after a growing pause. In an outage messages wait in this process, and one at a time
// is retried; as soon as one is handled, all others are retried. If they were sent back to the broker, they would be
// redelivered seconds after the end of the outage, because the broker has a few long pauses only, and the broker would
// store each of them again for every attempt.
type retries struct {
	first, longest time.Duration

	mu       sync.Mutex
	handled  uint64        // messages handled
	failures int           // failed attempts since the last handled message
	since    time.Time     // time of the first of these failures
	made     int           // retries since then
	next     time.Time     // time of the next retry
	works    chan struct{} // closed and replaced when a message is handled after failures
}

func newRetries(first, longest time.Duration) *retries {
	return &retries{first: first, longest: longest, works: make(chan struct{})}
}

// begin is called before the first attempt of a message in this process. Its result is the argument of failed.
func (t *retries) begin() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handled
}

// succeeded records a handled message. After an outage it returns the number of failures and the duration of the
// outage.
func (t *retries) succeeded() (failures int, lasted time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handled++
	if failures = t.failures; failures > 0 {
		lasted = time.Since(t.since)
		t.failures, t.made = 0, 0
		close(t.works)
		t.works = make(chan struct{})
	}
	return failures, lasted
}

// failed records a failed attempt. alone reports whether other messages were handled since begin; first reports
// whether it is the first failure since the last handled message.
func (t *retries) failed(begun uint64) (alone, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.handled != begun {
		return true, false
	}
	t.failures++
	if t.failures > 1 {
		return false, false
	}
	t.since = time.Now()
	t.next = t.since.Add(t.pause())
	return false, true
}

// turn waits until a failed message may be retried. It returns false when one of the channels receives first.
func (t *retries) turn(closing, down <-chan struct{}, expired <-chan time.Time) bool {
	for {
		t.mu.Lock()
		if t.failures == 0 {
			t.mu.Unlock()
			return true
		}
		wait := time.Until(t.next)
		if wait <= 0 {
			t.made++
			t.next = time.Now().Add(t.pause())
			t.mu.Unlock()
			return true
		}
		works := t.works
		t.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-closing:
			timer.Stop()
			return false
		case <-down:
			timer.Stop()
			return false
		case <-expired:
			timer.Stop()
			return false
		case <-works:
			timer.Stop()
			return true
		case <-timer.C: // only one of the waiting messages gets the turn
		}
	}
}

// pause returns the pause before the next retry. The caller holds mu.
func (t *retries) pause() time.Duration {
	d := t.first
	for range min(t.made, 8) {
		d = d * 8 / 5
	}
	d = min(d, t.longest)
	return d + rand.N(d/10+1) //nolint:gosec // jitter against stampedes, not a secret
}
