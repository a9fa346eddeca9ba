package core

import (
	"context"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	pollInterval   = 200 * time.Millisecond
	lookupSize     = 256 // order_sns in one lookup
	streamsPerUser = 2
)

// Feed sends status updates to open event streams. One loop looks up the purchases of all streams together.
type Feed struct {
	purchases Purchases
	max       int

	mu         sync.Mutex
	byActivity map[string]map[*Stream]struct{}
	byUser     map[string]int
	open       int
	stopped    bool
}

// NewFeed returns a Feed with a bound on the streams of this process; Run starts it.
func NewFeed(purchases Purchases, maxStreams int) *Feed {
	return &Feed{
		purchases: purchases, max: maxStreams, byActivity: map[string]map[*Stream]struct{}{}, byUser: map[string]int{},
	}
}

// Stream follows one purchase for one buyer.
type Stream struct {
	feed                        *Feed
	activityID, orderSN, userID string
	updates                     chan Reservation // holds the latest only
	done                        chan struct{}    // closed when the process stops
	sent                        Status           // guarded by feed.mu; empty until begin
	closed                      bool
}

// Updates delivers each higher status of the purchase. It skips those that are outdated before the reader takes them.
func (s *Stream) Updates() <-chan Reservation { return s.updates }

// Done is closed when the process stops.
func (s *Stream) Done() <-chan struct{} { return s.done }

func (f *Feed) newStream(activityID, orderSN, userID string) (*Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopped:
		return nil, contract.Refuse(contract.CodeUnavailable, "this server is stopping").After(time.Second)
	case f.byUser[userID] >= streamsPerUser:
		return nil, contract.Refuse(contract.CodeOverloaded,
			"a buyer may have two streams open; read the reservation instead").After(5 * time.Second)
	case f.open >= f.max:
		return nil, contract.Refuse(contract.CodeOverloaded,
			"too many streams are open; read the reservation instead").After(5 * time.Second)
	}
	s := &Stream{
		feed: f, activityID: activityID, orderSN: orderSN, userID: userID,
		updates: make(chan Reservation, 1), done: make(chan struct{}),
	}
	if f.byActivity[activityID] == nil {
		f.byActivity[activityID] = map[*Stream]struct{}{}
	}
	f.byActivity[activityID][s] = struct{}{}
	f.byUser[userID]++
	f.open++
	return s, nil
}

// begin records the status that the caller sends first; the feed looks up the stream from now on.
func (s *Stream) begin(r Reservation) {
	s.feed.mu.Lock()
	s.sent = r.Status
	s.feed.mu.Unlock()
}

// Close removes the stream from the feed. It may be called twice.
func (s *Stream) Close() {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	delete(f.byActivity[s.activityID], s)
	if len(f.byActivity[s.activityID]) == 0 {
		delete(f.byActivity, s.activityID)
	}
	if f.byUser[s.userID]--; f.byUser[s.userID] == 0 {
		delete(f.byUser, s.userID)
	}
	f.open--
}

// Open returns the number of open streams.
func (f *Feed) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// Run feeds the streams until ctx ends, and then ends them.
func (f *Feed) Run(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.stop()
			return nil
		case <-tick.C:
			f.poll(ctx)
		}
	}
}

// stop ends all streams and refuses new ones.
func (f *Feed) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.stopped = true
	for _, streams := range f.byActivity {
		for s := range streams {
			close(s.done)
		}
	}
}

// poll looks up the purchases of all streams that have not ended and sends what has changed.
func (f *Feed) poll(ctx context.Context) {
	f.mu.Lock()
	followed := make(map[string][]string, len(f.byActivity))
	for id, streams := range f.byActivity {
		seen := make(map[string]bool, len(streams))
		for s := range streams {
			if s.sent != "" && !s.sent.Terminal() && !seen[s.orderSN] {
				seen[s.orderSN] = true
				followed[id] = append(followed[id], s.orderSN)
			}
		}
	}
	f.mu.Unlock()
	for id, sns := range followed {
		for len(sns) > 0 && ctx.Err() == nil {
			n := min(lookupSize, len(sns))
			found, err := f.purchases.LookupAll(ctx, id, sns[:n])
			if err != nil {
				break // the next round repeats the lookup
			}
			f.send(id, found)
			sns = sns[n:]
		}
	}
}

func (f *Feed) send(activityID string, found map[string]Reservation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.byActivity[activityID] {
		r, ok := found[s.orderSN]
		if !ok || s.sent == "" || r.Status.rank() <= s.sent.rank() {
			continue
		}
		s.sent = r.Status
		select {
		case <-s.updates:
		default:
		}
		s.updates <- r // never blocks: this is the only sender, under the lock
	}
}
