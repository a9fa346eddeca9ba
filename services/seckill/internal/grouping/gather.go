package grouping

import "time"

const (
	// gather is the longest pause of a call that waits for more requests. A call with few requests costs about as much as
	// one with fifty: a round trip and a write to disk.
	gather = 2 * time.Millisecond
	// largeGroup is the number of waiting requests from which a call no longer waits for others to arrive by chance, and
	// from which a further worker starts, up to Options.Calls.
	largeGroup = 16
	// fullGroup is the number of requests from which a larger call costs hardly less for each of them.
	fullGroup = 64
)

// lastCall describes the last call of a worker. It is zero for the first one.
type lastCall struct {
	requests int
	took     time.Duration
}

// gathering returns how long the next call waits while that many requests wait, and the number of requests that ends
// the wait early. The first call of a worker and one that follows a single request do not wait: an idle key is called
// at once.
//
// While fewer than largeGroup wait, the call waits for gather at most. While more wait, one call at a time serves a
// closed loop: the callers of the last call return while the next one is in flight, and groups alternate between the
// two halves of the callers. Then the call waits for three quarters of both, for at most half as long as the last call
// took.
func (g *Grouper[Q, A]) gathering(last lastCall, waiting int) (enough int, wait time.Duration) {
	if !g.Gathers || last.requests < 2 {
		return 0, 0
	}
	enough = largeGroup
	if g.Calls <= 1 {
		enough = min(max((last.requests+waiting)*3/4, largeGroup), fullGroup, g.Size)
	}
	switch {
	case waiting >= enough:
		return 0, 0
	case waiting < largeGroup:
		return enough, gather
	}
	return enough, min(last.took/2, gather)
}
