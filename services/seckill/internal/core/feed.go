package core

import (
	"context"
	"sync"
	"time"

	"flashsale.internal/pkg/eventstream"
)

const (
	pollInterval   = 200 * time.Millisecond
	lookupSize     = 256 // order_sns in one lookup
	streamsPerUser = 2
)

// Feed sends status updates to open event streams. One loop looks up the purchases of all streams together.
type Feed struct {
	purchases Purchases
	streams   *eventstream.Streams[Reservation]
	bounds    eventstream.Bounds

	mu         sync.Mutex
	byActivity map[string]map[*Stream]struct{}
}

// NewFeed returns a Feed with a bound on the streams of this process; Run starts it.
func NewFeed(purchases Purchases, maxStreams int) *Feed {
	return &Feed{
		purchases: purchases, byActivity: map[string]map[*Stream]struct{}{}, streams: eventstream.New[Reservation](),
		bounds: eventstream.Bounds{
			Total: maxStreams, TotalReached: "too many streams are open; read the reservation instead",
			PerUser: streamsPerUser, PerUserReached: "a buyer may have two streams open; read the reservation instead",
		},
	}
}

// Stream follows one purchase for one buyer. It delivers each higher status.
type Stream struct {
	*eventstream.Stream[Reservation]
	feed                *Feed
	activityID, orderSN string
	sent                Status // guarded by feed.mu; empty until begin
}

func (f *Feed) newStream(activityID, orderSN, userID string) (*Stream, error) {
	one, err := f.streams.Open(userID, f.bounds)
	if err != nil {
		return nil, err
	}
	s := &Stream{Stream: one, feed: f, activityID: activityID, orderSN: orderSN}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byActivity[activityID] == nil {
		f.byActivity[activityID] = map[*Stream]struct{}{}
	}
	f.byActivity[activityID][s] = struct{}{}
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
	s.Stream.Close()
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byActivity[s.activityID], s)
	if len(f.byActivity[s.activityID]) == 0 {
		delete(f.byActivity, s.activityID)
	}
}

// Open returns the number of open streams.
func (f *Feed) Open() int { return f.streams.Len() }

// Run feeds the streams until ctx ends, and then ends them.
func (f *Feed) Run(ctx context.Context) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			f.streams.Stop()
			return nil
		case <-tick.C:
			f.poll(ctx)
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
		s.Send(r)
	}
}
