package priority

import "time"

// The delay that a buyer feels is the mean wait for the gate while a call is in flight, and the mean time for which a
// goroutine that could run waits for a processor. Buyers wait from the first value on, and no longer when the delay was
// below the second for calmAfter. A call takes some tenths of a millisecond while processors are free.
const (
	waitingFrom = 1500 * time.Microsecond
	calmBelow   = 750 * time.Microsecond
	calmAfter   = 500 * time.Millisecond
)

// buyers decides whether buyers wait.
type buyers struct {
	wait bool
	calm time.Duration // time since the delay was last calmBelow or more
}

// observe decides by the delay in an interval in which n purchases were accepted. Without one there is nothing to yield
// to: a refusal writes nothing.
func (b *buyers) observe(took time.Duration, n int64, delay time.Duration) {
	if n > 0 && delay >= calmBelow {
		b.calm = 0
		b.wait = b.wait || delay >= waitingFrom
		return
	}
	if b.calm += took; b.calm >= calmAfter {
		b.wait = false
	}
}
