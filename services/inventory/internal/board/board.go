// Package board follows live sales for their merchants: the units in the gate, the orders in the ledger, and the
// requests of buyers in each second. All viewers of an activity in this process share one sampler.
package board

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/eventstream"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// MaxPoints bounds the points of a sample: 15 min.
const MaxPoints = 900

// Requests are numbers of buyers' requests, over all processes of seckill.
type Requests struct {
	Accepted int64            // purchases accepted; exact in totals, a count of responses in a second
	Paths    int64            // paths issued
	Solved   int64            // challenges solved
	Failed   int64            // wrong answers to challenges
	Refused  map[string]int64 // by code
}

func (q Requests) equal(o Requests) bool {
	return q.Accepted == o.Accepted && q.Paths == o.Paths && q.Solved == o.Solved && q.Failed == o.Failed &&
		maps.Equal(q.Refused, o.Refused)
}

// Second holds the requests of one second.
type Second struct {
	At time.Time
	Requests
}

// Units are the units of an activity, summed over its SKUs.
type Units struct{ Total, Left, Held, Sold int64 }

// RoomPlaces are the sequence number of the last ticket of a waiting room, the last place that was admitted, and the last
// one that may no longer take paths.
type RoomPlaces struct{ Sequence, Admitted, Lapsed int64 }

// Room is what a waiting room holds. Tickets that their buyers replaced count as waiting until their place is admitted.
type Room struct {
	Waiting  int64
	Admitted int64 // places that may take paths
	Lapsed   int64
	Estimate time.Duration // until all that wait are admitted, while the sale is open and Redis is reachable
}

// roomOf returns what a room with an admission rate holds, nil before its first ticket.
func roomOf(p RoomPlaces, rate int64) *Room {
	if p.Sequence == 0 || rate <= 0 {
		return nil
	}
	waiting := max(0, p.Sequence-p.Admitted)
	return &Room{
		Waiting: waiting, Admitted: max(0, p.Admitted-p.Lapsed), Lapsed: p.Lapsed,
		Estimate: time.Duration((waiting+rate-1)/rate) * time.Second,
	}
}

// Point is one second of a sale. Units is nil for a second in which this process did not sample the gate.
type Point struct {
	Second
	Units   *Units
	Changed int64 // the Reading of the sample that first had these requests
}

// Sample is an activity at one moment. Nothing changes it after it was taken.
type Sample struct {
	AsOf     time.Time
	Activity core.Activity
	// Readiness states whether the sale would go on if its gate were lost at AsOf.
	Readiness core.Readiness
	Units     Units // as the gate counts them; as the database does, if the gate cannot be read
	Revenue   int64 // of the sold units, at their prices in the sale, up to core.MaxRevenue
	Room      *Room // nil without a waiting room, before its first ticket, and while the gate cannot be read
	Orders    merchants.ReservationCounts
	Totals    Requests // since the publication; if the gate cannot be read, Accepted is the database's
	Stock     *merchants.StockView
	// Points holds the seconds with requests, oldest first, up to some seconds ago: processes that respond have added
	// their counts of them. Counts that are added late change a point.
	Points  []Point
	Reading int64 // number of this sample's reading of Points; it rises from sample to sample
}

// Counters reads the counters of gates.
type Counters interface {
	Audit(ctx context.Context, activityID string) (core.GateAudit, error)
	// Requests returns the requests since the publication, RequestsSince those of each second since then, oldest first;
	// seconds without requests are left out.
	Requests(ctx context.Context, activityID string) (Requests, error)
	RequestsSince(ctx context.Context, activityID string, since time.Time) ([]Second, error)
	RoomPlaces(ctx context.Context, activityID string) (RoomPlaces, error)
}

// Ledger is what the board reads in the tables.
type Ledger interface {
	Activity(ctx context.Context, in core.Scope, id string) (*core.Activity, error)
	ReservationCounts(ctx context.Context, in core.Scope, activityID string) (merchants.ReservationCounts, error)
}

// Redisless is the part of redisless.Service that the board needs.
type Redisless interface {
	Readiness(ctx context.Context, a *core.Activity) (core.Readiness, error)
}

// Config has the bounds and intervals of a Board.
type Config struct {
	Interval       time.Duration // between two samples of an activity, and of its gate's audits
	StockEvery     time.Duration // between two comparisons of database and gate
	SampleTimeout  time.Duration
	StreamFor      time.Duration // lifetime of a stream
	Heartbeat      time.Duration // between the comments in a stream
	Streams        int           // of this process
	StreamsPerUser int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Interval: time.Second, StockEvery: 5 * time.Second, SampleTimeout: 5 * time.Second,
		StreamFor: 10 * time.Minute, Heartbeat: 15 * time.Second, Streams: 256, StreamsPerUser: 4,
	}
}

// Deps are the ports of a Board.
type Deps struct {
	Gate      Counters
	Ledger    Ledger
	Redisless Redisless
	Now       func() time.Time
	Log       *slog.Logger
}

// Board takes samples of activities for their viewers. It is safe for concurrent use.
type Board struct {
	Deps
	Config
	streams *eventstream.Streams[*Sample]

	mu      sync.Mutex
	watches map[string]*watch // by activity; those used in the last minute
	stopped bool
	running sync.WaitGroup // samplers
}

// New makes a Board.
func New(d Deps, c Config) *Board {
	return &Board{Deps: d, Config: c, watches: map[string]*watch{}, streams: eventstream.New[*Sample]()}
}

// Snapshot returns a sample of an activity that is at most an interval old, or as old as the latest one of a sampler.
// It refuses with not_found if the scope has no such activity, and with gate_unavailable if the gate cannot be read.
func (b *Board) Snapshot(ctx context.Context, in core.Scope, activityID string) (*Sample, error) {
	a, err := b.Ledger.Activity(ctx, in, activityID)
	if err != nil {
		return nil, err
	}
	w, err := b.watch(activityID)
	if err != nil {
		return nil, err
	}
	s, err := w.sample(ctx)
	if err != nil {
		return nil, err
	}
	return s.with(a), nil
}

// with returns the sample with an activity that was read later, so that a merchant sees a change at once.
func (s *Sample) with(a *core.Activity) *Sample {
	c := *s
	c.Activity = *a
	return &c
}

// dropAfter is the time after which an activity without viewers is dropped.
const dropAfter = time.Minute

// watch returns the watch of an activity. It drops those that are not in use.
func (b *Board) watch(activityID string) (*watch, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil, stopping()
	}
	return b.watchLocked(activityID), nil
}

func (b *Board) watchLocked(activityID string) *watch {
	now := b.Now()
	for id, w := range b.watches {
		if id != activityID && len(w.streams) == 0 && w.used.Add(dropAfter).Before(now) {
			delete(b.watches, id)
		}
	}
	w := b.watches[activityID]
	if w == nil {
		w = newWatch(b, activityID)
		b.watches[activityID] = w
	}
	w.used = now
	return w
}

// Run ends the streams when ctx ends, and waits for the samplers.
func (b *Board) Run(ctx context.Context) error {
	<-ctx.Done()
	b.mu.Lock()
	b.stopped = true
	b.streams.Stop()
	for _, w := range b.watches {
		w.stopSampler()
	}
	b.mu.Unlock()
	b.running.Wait()
	return nil
}

// Open returns the number of open streams.
func (b *Board) Open() int { return b.streams.Len() }

// Stream receives the samples of one activity, for one viewer, one each interval. A slow reader misses some; their points
// are in the later ones. A nil sample means that the activity was deleted.
type Stream struct {
	*eventstream.Stream[*Sample]
	board *Board
	watch *watch
}

// Follow returns a snapshot of an activity and a stream of the samples that follow. The first viewer starts the
// activity's sampler. The caller closes the stream. It refuses as Snapshot does, and with overloaded if the user or
// this process has too many streams.
func (b *Board) Follow(ctx context.Context, in core.Scope, user, activityID string) (*Sample, *Stream, error) {
	a, err := b.Ledger.Activity(ctx, in, activityID)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.newStream(user, activityID)
	if err != nil {
		return nil, nil, err
	}
	first, err := s.watch.sample(ctx)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return first.with(a), s, nil
}

func (b *Board) newStream(user, activityID string) (*Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, err := b.streams.Open(user, eventstream.Bounds{
		Total: b.Streams, TotalReached: "too many boards are open; read the board instead",
		PerUser: b.StreamsPerUser, PerUserReached: "this user has too many boards open; close one, or read the board instead",
	})
	if err != nil {
		return nil, err
	}
	w := b.watchLocked(activityID)
	s := &Stream{one, b, w}
	w.streams[s] = struct{}{}
	if len(w.streams) == 1 {
		w.startSampler()
	}
	return s, nil
}

// Close ends the stream. The last viewer of an activity stops its sampler. Close may be called twice.
func (s *Stream) Close() {
	s.Stream.Close()
	b, w := s.board, s.watch
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, open := w.streams[s]; !open {
		return
	}
	delete(w.streams, s)
	w.used = b.Now()
	if len(w.streams) == 0 {
		w.stopSampler()
	}
}

func stopping() error {
	return contract.Refuse(contract.CodeUnavailable, "this server is stopping").After(time.Second)
}

// withoutGate reports whether a sample that failed to read the gate with err has the database's counts instead: the
// sale goes on without its gate, or its merchant must see that it cannot.
func withoutGate(err error, a *core.Activity, r core.Readiness) bool {
	switch r {
	case core.ReadinessUnread, core.ReadinessOutdated, core.ReadinessImporting:
		return a.WithoutGate(err) || errors.Is(err, core.ErrGateUnavailable)
	}
	return a.WithoutGate(err)
}

// gateAbsent reports whether err means that the activity has no gate, and need not have one.
func gateAbsent(err error, a *core.Activity, now time.Time) bool {
	return errors.Is(err, core.ErrNoGate) && !a.GateDue(now)
}
