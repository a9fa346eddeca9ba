package rocketmq

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// While no message of a subscription gets through, one that waits is tried after firstTry, then less often up to every
	// longestTry: that is how soon the work resumes, and all that an outage costs those who are away.
	firstTry, longestTry = 500 * time.Millisecond, 1250 * time.Millisecond
	// maxWaiting bounds the messages of one topic that wait in this process to be tried again.
	maxWaiting = 60
	// holdFor is how long a message waits here, from its first failure on, before the broker gets it back: as long may those
	// that fail by themselves keep all places and hold up the others. It is far below clientTimeout.
	holdFor = time.Minute
)

// tries tells a message that fails by itself from an outage of what all messages of a subscription need: in an outage
// none gets through. A message that fails while others are handled goes back to the broker and comes again after a growing
// pause. In an outage messages wait here, and one at a time is tried; as soon as one is handled so are all others. Sent
// back to the broker they would come seconds after the end of the outage, as the broker knows a few long pauses only, and
// it would write each of them down again for every attempt.
type tries struct {
	first, longest time.Duration

	mu       sync.Mutex
	handled  uint64 // messages
	failures int    // in a row
	since    time.Time
	made     int       // tries of waiting messages since then
	next     time.Time // try
	works    chan struct{}
}

func newTries(first, longest time.Duration) *tries {
	return &tries{first: first, longest: longest, works: make(chan struct{})}
}

// begin is called before a message is handled for the first time here; failed wants what it returns.
func (t *tries) begin() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.handled
}

// succeeded notes a message that was handled. After an outage it tells how many failures and how much time that was.
func (t *tries) succeeded() (failures int, lasted time.Duration) {
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

// failed notes a message that was not handled. alone tells that others were, since begin; first, that it is the first to
// fail in a row.
func (t *tries) failed(begun uint64) (alone, first bool) {
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

// turn waits until a message that failed may be tried again. It returns false when one of the channels tells first.
func (t *tries) turn(closing, down <-chan struct{}, long <-chan time.Time) bool {
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
		case <-long:
			timer.Stop()
			return false
		case <-works:
			timer.Stop()
			return true
		case <-timer.C: // for one of those who wait
		}
	}
}

// pause before the next try. The caller holds mu.
func (t *tries) pause() time.Duration {
	d := t.first
	for range min(t.made, 8) {
		d = d * 8 / 5
	}
	d = min(d, t.longest)
	return d + rand.N(d/10+1) //nolint:gosec // chance against stampedes, not against guessing
}
