package ratelimit

import (
	"errors"
	"fmt"
	"time"
)

// Limit is a rate: Rate permits per Period, and up to Burst permits at once with the algorithms that have bursts.
type Limit struct {
	Rate   int64         // permits per Period, 1 to 1e9
	Period time.Duration // whole microseconds, 1 ms to 366 days
	Burst  int64         // permits; 0 = Rate (LeakyQueue: length of the queue; WarmUp: 0 = 1). Windows have no burst.
}

// PerSecond returns a limit of n permits per second.
func PerSecond(n int64) Limit { return Limit{Rate: n, Period: time.Second} }

// PerMinute returns a limit of n permits per minute.
func PerMinute(n int64) Limit { return Limit{Rate: n, Period: time.Minute} }

// Every returns a limit of one permit per d.
func Every(d time.Duration) Limit { return Limit{Rate: 1, Period: d} }

// WithBurst returns the limit with another burst.
func (l Limit) WithBurst(n int64) Limit {
	l.Burst = n
	return l
}

// String formats the limit, for example as "1000/1s burst 100".
func (l Limit) String() string {
	s := fmt.Sprintf("%d/%s", l.Rate, l.Period)
	if l.Burst != 0 {
		s += fmt.Sprintf(" burst %d", l.Burst)
	}
	return s
}

const (
	maxRate    = 1_000_000_000
	minPeriod  = time.Millisecond
	maxPeriod  = 366 * 24 * time.Hour
	maxHorizon = 2 * maxPeriod // upper bound of the time to full and of the longest wait
)

func (l Limit) validate() error {
	switch {
	case l.Rate < 1 || l.Rate > maxRate:
		return fmt.Errorf("rate %d is not between 1 and %d", l.Rate, maxRate)
	case l.Period < minPeriod || l.Period > maxPeriod:
		return fmt.Errorf("period %s is not between %s and %s", l.Period, minPeriod, maxPeriod)
	case l.Period%time.Microsecond != 0:
		return fmt.Errorf("period %s is not a whole number of microseconds", l.Period)
	case l.Burst < 0 || l.Burst > maxRate:
		return fmt.Errorf("burst %d is not between 0 and %d", l.Burst, maxRate)
	case int64(l.Period) < l.Rate:
		return errors.New("more than one permit per nanosecond")
	}
	return nil
}
