package ordersn

import (
	"errors"
	"strconv"
	"sync"
	"time"
)

// ErrNoLease says that no worker id is proven for the present millisecond. Nothing was issued; the caller answers
// 503 unavailable.
var ErrNoLease = errors.New("no worker id is leased at present")

// Lease says which worker id may issue for a millisecond (Unix time). ok is true only within the proven lease: nobody
// else ever issues for that millisecond under that worker id, not even after this process is gone.
type Lease interface {
	Worker(nowMS int64) (worker int, ok bool)
}

// clock is what leases have that know the time better than this machine.
type clock interface{ Now() time.Time }

// Generator issues order_sns. They rise, and none comes twice, whatever the clock does. It is safe for concurrent use.
type Generator struct {
	lease Lease
	now   func() time.Time

	mu       sync.Mutex
	ms       int64 // last issued for, Unix time
	sequence int64
	worker   int
}

// maxWait bounds how long Next waits for the next millisecond by the clock before it takes the next one regardless. The
// lease still has to cover it.
const maxWait = 3 * time.Millisecond

// NewGenerator makes a generator. With now == nil the lease's own clock is used where it has one (RedisLease: Redis
// time, FileLease: never behind what was issued before a restart), so that an offset of this machine's clock does not
// matter; else time.Now. With another clock, milliseconds outside of the lease are refused.
func NewGenerator(l Lease, now func() time.Time) *Generator {
	if now == nil {
		now = time.Now
		if c, ok := l.(clock); ok {
			now = c.Now
		}
	}
	return &Generator{lease: l, now: now, worker: -1}
}

// Next issues an order_sn for the user. When the 64 of a millisecond are used up it waits for the next one; when the
// clock was set back it goes on from the last millisecond it used. ErrNoLease is its only error.
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
	if since := ms - epochMS; !ok || since < 1 || since > maxTime || worker < 0 || worker >= Workers {
		return "", ErrNoLease
	}
	g.ms, g.sequence, g.worker = ms, sequence, worker
	return strconv.FormatInt((ms-epochMS)<<timeShift|int64(worker)<<workerShift|sequence<<sequenceShift|int64(Gene(userID)), 10), nil
}

// following is the millisecond after the last one used, or a later one if the clock says so. It waits for it when it is
// the clock's next; a clock that stands still or was set back far is not waited for.
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
