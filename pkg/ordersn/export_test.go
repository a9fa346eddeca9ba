package ordersn

import "time"

// Kill lets go of the file as the end of a process does: nothing is written.
func Kill(l *FileLease) { _ = l.file.Close() }

// NewTestLease is a RedisLease with another key and length.
func NewTestLease(l *RedisLease, key string, term time.Duration) *RedisLease {
	l.key, l.term = key, term
	return l
}

// Window is what the lease has proven.
func (l *RedisLease) Window() (worker int, from, high int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window.worker, l.window.from, l.window.high
}
