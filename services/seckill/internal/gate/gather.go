package gate

import "time"

const (
	// gather is the longest pause of a call that waits for more requests. A call with few requests costs about as much as
	// one with fifty: a round trip and a write to disk.
	gather = 2 * time.Millisecond
	// largeGroup is the number of waiting requests from which a call no longer waits for others to arrive by chance, and
	// from which a further worker starts, up to the field calls.
	largeGroup = 16
	// fullGroup is the number of requests from which a larger call costs hardly less for each of them.
	fullGroup = 64
)

// call describes the last call of a worker. It is zero for the first one.
type call struct {
	requests int
	took     time.Duration
}

// gathering returns how long the next call waits while that many requests wait, and the number of requests that ends
// the wait early. After an idle time and after a call with one request there is no wait: an idle gate responds at once.
//
// Below largeGroup the call waits for gather at most. Above it, one call at a time serves callers that mostly come back:
// each of them pays, bids and returns in its own time, so that the gate would alternate between two halves of them. Then
// the call waits for three quarters of the callers that the last call served or that wait, for at most half of the time
// of that call.
func (g *grouper[Q, A]) gathering(last call, waiting int) (enough int, wait time.Duration) {
	if last.requests < 2 {
		return 0, 0
	}
	if waiting < largeGroup {
		return largeGroup, g.gather
	}
	if g.calls > 1 {
		return 0, 0
	}
	enough = min((last.requests+waiting)*3/4, fullGroup, g.maxGroup)
	if waiting >= enough {
		return 0, 0
	}
	return enough, min(last.took/2, g.gather)
}
