package priority

import "time"

// pacer spaces out work so that it keeps to a rate. Time without work gives no credit for later.
type pacer struct {
	next time.Time // until then, the work so far exceeds the rate
}

// take records n units of work that began at that time, at a rate per second. The delay that follows ends at most that
// long after the beginning.
func (p *pacer) take(began time.Time, n int, rate float64, most time.Duration) {
	if p.next.Before(began) {
		p.next = began
	}
	ahead := most
	if rate > 0 {
		ahead = min(p.next.Sub(began)+time.Duration(float64(n)/rate*float64(time.Second)), most)
	}
	p.next = began.Add(ahead)
}

// delay returns the time until the rate allows more work.
func (p *pacer) delay(now time.Time) time.Duration { return max(p.next.Sub(now), 0) }
