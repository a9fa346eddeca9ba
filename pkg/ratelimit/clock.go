package ratelimit

import (
	"sync/atomic"
	"time"
)

// clock tells ns since 1970. It begins at the wall clock, so that windows are those of other processes, and goes on by the
// monotonic one, so that nothing happens when somebody sets the wall clock.
type clock struct {
	begun time.Time
	base  int64
	given func() time.Time

	latest *atomic.Int64 // of given, which may go back
}

func newClock(given func() time.Time) clock {
	begun := time.Now()
	return clock{begun: begun, base: begun.UnixNano(), given: given, latest: new(atomic.Int64)}
}

func (c *clock) now() int64 {
	if c.given != nil {
		return c.notBack(c.given().UnixNano())
	}
	return c.base + int64(time.Since(c.begun))
}

// notBack is t, or the latest time that was ever told.
func (c *clock) notBack(t int64) int64 {
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
