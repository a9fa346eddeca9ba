package ordersn

import (
	"context"
	"errors"
	"time"
)

// Kill closes the file without writing, like a killed process.
func Kill(l *FileLease) { _ = l.file.Close() }

// NewTestLease returns a TermLease with another key and length.
func NewTestLease(l *TermLease, key string, term time.Duration) *TermLease {
	r := l.registry.(*redisRegistry)
	r.key, r.term = key, term
	return l
}

// Window returns the confirmed window of the lease.
func (l *TermLease) Window() (worker int, from, high int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window.worker, l.window.from, l.window.high
}

// Step makes one attempt of Run: it acquires an id, or renews the lease. It returns false after a failure.
func (l *TermLease) Step(ctx context.Context) bool {
	if !l.holds() {
		return l.acquire(ctx) == nil
	}
	err := l.renew(ctx)
	if errors.Is(err, errLost) {
		l.drop()
	}
	return err == nil
}
