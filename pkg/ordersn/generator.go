package ordersn

import (
	"errors"
	"strconv"
	"sync"
	"time"
)

// ErrNoLease reports that no worker id is leased for the current millisecond. Nothing was issued; the caller responds
// 503 unavailable.
var ErrNoLease = errors.New("no worker id is leased at present")

// Lease returns the worker id that may issue for a millisecond (Unix time). ok is true only within the confirmed
// lease: no other process ever issues for that millisecond with that worker id, not even after this process has
// ended.
type Lease interface {
	Worker(nowMS int64) (worker int, ok bool)
}

// clock is implemented by leases whose time is more reliable than this machine's.
type clock interface{ Now() time.Time }

// Generator issues order_sns. They rise and are unique, whatever the clock does. It is safe for concurrent use.
type Generator struct {
	lease Lease
	now   func() time.Time

	mu       sync.Mutex
	ms       int64 // last issued for, Unix time
	sequence int64
	worker   int
}

// maxWait bounds the time that Next waits for the clock to reach the next millisecond. After it, Next uses that
// millisecond anyway, if the lease covers it.
const maxWait = 3 * time.Millisecond

// NewGenerator returns a generator. If now is nil, it uses the lease's own clock if it has one (TermLease: the time
// of Redis; FileLease: never behind the times issued before a restart), so that an offset of this machine's clock has
// no effect; else time.Now. With another clock, Next refuses milliseconds outside of the lease.
func NewGenerator(l Lease, now func() time.Time) *Generator {
	if now == nil {
		now = time.Now
		if c, ok := l.(clock); ok {
			now = c.Now
		}
	}
	return &Generator{lease: l, now: now, worker: -1}
}

// Next issues an order_sn for the user. When the 64 numbers of a millisecond are used up, it waits for the next one.
// After the clock was set back, it continues from the last millisecond it used. ErrNoLease is its only error.
func (g *Generator) Next(userID string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ms, sequence := max(g.now().UnixMilli(), g.ms), int64(0)
	if ms == g.ms {
		if sequence = g.sequence + 1; sequence > maxSequence {
			ms, sequence = g.following(), 0
		}
	}
	worker, ok := g.lease.Worker(ms)
	if ok && ms == g.ms && worker != g.worker {
		// A new worker id within a millisecond could fall below the last order_sn.
		ms, sequence = g.following(), 0
		worker, ok = g.lease.Worker(ms)
	}
	if since := ms - originMS; !ok || since < 1 || since > maxTime || worker < 0 || worker >= Workers {
		return "", ErrNoLease
	}
	g.ms, g.sequence, g.worker = ms, sequence, worker
	sn := (ms-originMS)<<timeShift | int64(worker)<<workerShift | sequence<<sequenceShift | int64(Gene(userID))
	return strconv.FormatInt(sn, 10), nil
}

// following returns the millisecond after the last one used, or the current one if that is later. It waits until the
// clock reaches it, at most maxWait, and does not wait for a clock that is more than a millisecond behind.
func (g *Generator) following() int64 {
	next := g.ms + 1
	for end := time.Now().Add(maxWait); ; {
		now := g.now()
		if ms := now.UnixMilli(); ms >= next {
			return ms
		}
		ahead := time.UnixMilli(next).Sub(now)
		if ahead > time.Millisecond || !time.Now().Before(end) {
			return next
		}
		time.Sleep(ahead)
	}
}
