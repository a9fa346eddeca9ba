package ratelimit

import (
	"sync/atomic"
	"time"
)

// clock returns ns since 1970. It starts at the wall clock, so that windows agree with those of other processes. It
// continues with the monotonic clock, so that a change of the wall clock has no effect.
type clock struct {
	start  time.Time
	base   int64
	source func() time.Time

	latest *atomic.Int64 // latest time from source, which may go back
}

func newClock(source func() time.Time) clock {
	start := time.Now()
	return clock{start: start, base: start.UnixNano(), source: source, latest: new(atomic.Int64)}
}

func (c *clock) now() int64 {
	if c.source != nil {
		return c.monotonic(c.source().UnixNano())
	}
	return c.base + int64(time.Since(c.start))
}

// monotonic returns t, or the latest time returned so far if that is later.
func (c *clock) monotonic(t int64) int64 {
	for {
		latest := c.latest.Load()
		if t <= latest {
			return latest
		}
		if c.latest.CompareAndSwap(latest, t) {
			return t
		}
	}
}
