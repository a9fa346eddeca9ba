package core

import (
	"context"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// How streams are fed and bounded.
const (
	feedEvery      = 200 * time.Millisecond
	feedGroup      = 256 // order_sns per look-up
	streamsPerUser = 2
)

// Feed follows the purchases that buyers have a stream open for. One loop looks all of them up together.
type Feed struct {
	gate Gate
	max  int

	mu     sync.Mutex
	byAct  map[string]map[*Stream]struct{}
	byUser map[string]int
	opened int
	over   bool
}

// NewFeed bounds the streams of this process; it starts nothing.
func NewFeed(gate Gate, maxStreams int) *Feed {
	return &Feed{gate: gate, max: maxStreams, byAct: map[string]map[*Stream]struct{}{}, byUser: map[string]int{}}
}

// Stream is one buyer following one purchase.
type Stream struct {
	feed                        *Feed
	activityID, orderSN, userID string
	updates                     chan Reservation // holds the latest only
	done                        chan struct{}    // closed when the process stops
	told                        Status           // guarded by feed.mu; empty until begin
	closed                      bool
}

// Updates tells each state the purchase rises to, skipping those that were followed before they were read.
func (s *Stream) Updates() <-chan Reservation { return s.updates }

// Done is closed when the process stops.
func (s *Stream) Done() <-chan struct{} { return s.done }

func (f *Feed) open(activityID, orderSN, userID string) (*Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
		return nil, contract.Refuse(contract.CodeUnavailable, "this server is stopping").After(time.Second)
	case f.byUser[userID] >= streamsPerUser:
		return nil, contract.Refuse(contract.CodeOverloaded, "a buyer may have two streams open; ask for the reservation instead").After(5 * time.Second)
	case f.opened >= f.max:
		return nil, contract.Refuse(contract.CodeOverloaded, "too many streams are open; ask for the reservation instead").After(5 * time.Second)
	}
	s := &Stream{
		feed: f, activityID: activityID, orderSN: orderSN, userID: userID,
		updates: make(chan Reservation, 1), done: make(chan struct{}),
	}
	if f.byAct[activityID] == nil {
		f.byAct[activityID] = map[*Stream]struct{}{}
	}
	f.byAct[activityID][s] = struct{}{}
	f.byUser[userID]++
	f.opened++
	return s, nil
}

func (s *Stream) begin(r Reservation) {
	s.feed.mu.Lock()
	s.told = r.Status
	s.feed.mu.Unlock()
}

// Close gives the place back. It may be called twice.
func (s *Stream) Close() {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	delete(f.byAct[s.activityID], s)
	if len(f.byAct[s.activityID]) == 0 {
		delete(f.byAct, s.activityID)
	}
	if f.byUser[s.userID]--; f.byUser[s.userID] == 0 {
		delete(f.byUser, s.userID)
	}
	f.opened--
}

// Open is the number of streams, for the metrics.
func (f *Feed) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

// Run feeds the streams until ctx ends, and then ends them.
func (f *Feed) Run(ctx context.Context) error {
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.End()
			return nil
		case <-tick.C:
			f.look(ctx)
		}
	}
}

// End ends all streams and lets no further one begin.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	f.over = true
	for _, streams := range f.byAct {
		for s := range streams {
			close(s.done)
		}
	}
}

func (f *Feed) look(ctx context.Context) {
	f.mu.Lock()
	asked := make(map[string][]string, len(f.byAct))
	for id, streams := range f.byAct {
		seen := make(map[string]bool, len(streams))
		for s := range streams {
			if s.told != "" && !s.told.Terminal() && !seen[s.orderSN] {
				seen[s.orderSN] = true
				asked[id] = append(asked[id], s.orderSN)
			}
		}
	}
	f.mu.Unlock()
	for id, sns := range asked {
		for len(sns) > 0 && ctx.Err() == nil {
			n := min(feedGroup, len(sns))
			found, err := f.gate.LookupAll(ctx, id, sns[:n])
			if err != nil {
				break // the buyers keep what they were told; the next round asks again
			}
			f.tell(id, found)
			sns = sns[n:]
		}
	}
}

func (f *Feed) tell(activityID string, found map[string]Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.byAct[activityID] {
		r, ok := found[s.orderSN]
		if !ok || s.told == "" || r.Status.rank() <= s.told.rank() {
			continue
		}
		s.told = r.Status
		select {
		case <-s.updates:
		default:
		}
		s.updates <- r // room is certain: this is the only sender, under the lock
	}
}

// rank is the height of a status. A buyer is never told a lower one after a higher one.
func (s Status) rank() int {
	switch s {
	case StatusQueued:
		return 1
	case StatusCreated:
		return 2
	case StatusPaid, StatusClosed, StatusFailed:
		return 3
	}
	return 0
}
