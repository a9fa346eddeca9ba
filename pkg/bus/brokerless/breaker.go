package brokerless

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// probeEvery is the approximate time between two messages that test an unavailable broker.
	probeEvery = time.Second
	// probeTimeout bounds the attempt at the broker of a message that tests it, and of one that follows from a message
	// that arrived by a call. The rest of its deadline is for the brokerless call.
	probeTimeout = time.Second
)

// breaker decides which transport a message takes. It opens when publishing has failed for a time, without a success
// in between. While it is open, one message at a time tests the broker; the first that the broker accepts closes it.
type breaker struct {
	after time.Duration
	log   func(message string, args ...any) // of a change, with pairs for slog
	opens func()                            // is called after it has opened

	mu          sync.Mutex
	failedSince time.Time // of the first failure since the last success; zero after a success
	opened      time.Time // zero while closed
	probing     bool
	nextProbe   time.Time
}

// attempt reports whether a message is to be sent to the broker first, and whether it is the one that tests it. The
// caller reports the result by succeeded or failed, if there is one, and then calls probed after a test.
func (b *breaker) attempt() (try, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return true, false
	}
	if b.probing || time.Now().Before(b.nextProbe) {
		return false, false
	}
	b.probing = true
	return true, true
}

// succeeded reports a message that the broker accepted.
func (b *breaker) succeeded() {
	b.mu.Lock()
	opened := b.opened
	b.failedSince, b.opened = time.Time{}, time.Time{}
	b.mu.Unlock()
	if !opened.IsZero() {
		b.log("RocketMQ is available, messages go to the broker", "brokerless_for", time.Since(opened))
	}
}

// failed reports a message that the broker did not accept, and returns whether it is to be a call. At once is for
// one that follows from a message that arrived by a call: its sender has waited already.
func (b *breaker) failed(atOnce bool, err error) (brokerless bool) {
	b.mu.Lock()
	now := time.Now()
	if b.failedSince.IsZero() {
		b.failedSince = now
	}
	failing := now.Sub(b.failedSince)
	b.nextProbe = now.Add(probeEvery*3/4 + rand.N(probeEvery/2)) //nolint:gosec // jitter, no secret
	opens := b.opened.IsZero() && (atOnce || failing >= b.after)
	if opens {
		b.opened = now
	}
	brokerless = !b.opened.IsZero()
	b.mu.Unlock()
	if opens {
		b.log("RocketMQ is unavailable, messages are calls between services", "failing_for", failing, "error", err)
		b.opens()
	}
	return brokerless
}

// probed ends a test of the broker, so that another message may make the next one.
func (b *breaker) probed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// openFor returns for how long it has been open, at least 1 ns; 0 while it is closed.
func (b *breaker) openFor() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return 0
	}
	return max(1, time.Since(b.opened))
}

// state returns closed, half-open or open.
func (b *breaker) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.opened.IsZero():
		return "closed"
	case b.probing:
		return "half-open"
	}
	return "open"
}
