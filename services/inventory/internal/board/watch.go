package board

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

const (
	// settleAfter is the age from which a second counts as complete: each process of seckill adds its counts about a
	// second later.
	settleAfter = 3 * time.Second
	// rereadFor is how far back a sampler reads counts again, for those that were added late.
	rereadFor = 15 * time.Second
	// keepPoints is the age from which a watch drops seconds.
	keepPoints = MaxPoints*time.Second + settleAfter
	// stockReadings bounds the samples in a row that compare database and gate while purchases land between the readings.
	stockReadings = 5
)

// watch takes the samples of one activity.
type watch struct {
	board      *Board
	activityID string

	// Guarded by Board.mu.

	streams map[*Stream]struct{}
	used    time.Time          // when a caller last read the activity
	cancel  context.CancelFunc // of the sampler; nil if none runs

	// turn holds one element while a sample is taken. It guards the fields below.
	turn chan struct{}

	latest  *Sample
	taken   time.Time         // when latest was taken
	points  map[int64]counted // by second
	units   map[int64]Units   // by second, those that were sampled
	readAt  time.Time         // when points were last read
	read    int64             // readings of points so far
	stockAt time.Time         // when database and gate were last compared
	unequal int               // comparisons in a row in which purchases landed meanwhile
}

// counted holds the requests of one second, as the latest reading found them.
type counted struct {
	Requests
	changed int64 // number of the reading that found them
}

func newWatch(b *Board, activityID string) *watch {
	return &watch{
		board: b, activityID: activityID, streams: map[*Stream]struct{}{}, turn: make(chan struct{}, 1),
		points: map[int64]counted{}, units: map[int64]Units{},
	}
}

// startSampler starts the sampler. The caller holds Board.mu.
func (w *watch) startSampler() {
	if w.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.board.running.Go(func() { w.run(ctx) })
}

// stopSampler ends the sampler. The caller holds Board.mu.
func (w *watch) stopSampler() {
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
}

// run takes a sample each interval and sends it to the streams, until ctx ends.
func (w *watch) run(ctx context.Context) {
	b := w.board
	tick := time.NewTicker(b.Interval)
	defer tick.Stop()
	log := b.Log.With("activity_id", w.activityID)
	var failures lifecycle.Failures
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.sampleAndSend(ctx)
		if ctx.Err() != nil {
			return
		}
		if contract.CodeOf(err) == contract.CodeNotFound { // the draft was deleted
			w.send(nil)
			err = nil
		}
		failures.Observe(ctx, log, "sample of a board", err)
	}
}

// sampleAndSend takes a sample and sends it to the streams. It converts a panic to an error, so that a sampler does not
// end the process; a request that takes a sample is protected by the HTTP server.
func (w *watch) sampleAndSend(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, w.board.SampleTimeout)
	defer cancel()
	s, err := w.sample(ctx)
	if err != nil {
		return err
	}
	w.send(s)
	return nil
}

// send replaces the sample that each stream delivers next; nil ends the streams.
func (w *watch) send(sample *Sample) {
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	for s := range w.streams {
		s.Send(sample)
	}
}

// sample returns the latest sample, or a new one if that is older than the interval. Callers that come together share
// one sample.
func (w *watch) sample(ctx context.Context) (*Sample, error) {
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.turn }()
	// A tenth less: a tick may come early, and must not find the sample of the tick before.
	if w.latest != nil && w.board.Now().Sub(w.taken) < w.board.Interval*9/10 {
		return w.latest, nil
	}
	began := w.board.Now()
	s, err := w.take(ctx)
	if err != nil {
		return nil, core.GateUnreadable(err)
	}
	w.latest, w.taken = s, began
	return s, nil
}

// take takes a sample. The activity exists and belongs to the viewers; Board has checked it.
func (w *watch) take(ctx context.Context) (*Sample, error) {
	b, in := w.board, core.AllMerchants()
	before, err := b.Ledger.Activity(ctx, in, w.activityID)
	if err != nil {
		return nil, err
	}
	ready, err := b.Redisless.Readiness(ctx, before)
	if err != nil {
		return nil, err
	}
	without := func(err error) bool { return withoutGate(err, before, ready) }
	audit, err := b.Gate.Audit(ctx, w.activityID)
	present := err == nil
	if err != nil && !gateAbsent(err, before, b.Now()) && !without(err) {
		return nil, err
	}
	if !present {
		audit = core.GateAudit{}
	}
	s := &Sample{AsOf: b.Now().UTC(), Activity: *before, Readiness: ready}
	s.Units, s.Revenue = unitsOf(before, audit, present)
	if before.RoomRate > 0 && present {
		places, err := b.Gate.RoomPlaces(ctx, w.activityID)
		if err != nil && !without(err) {
			return nil, err
		}
		s.Room = roomOf(places, before.RoomRate)
	}
	if s.Stock, err = w.stock(ctx, before, audit, present); err != nil {
		return nil, err
	}
	if s.Orders, err = b.Ledger.ReservationCounts(ctx, in, w.activityID); err != nil {
		return nil, err
	}
	if s.Totals, err = b.Gate.Requests(ctx, w.activityID); err != nil && !without(err) {
		return nil, err
	}
	if err != nil && w.latest != nil {
		s.Totals = w.latest.Totals
	}
	if !present { // its counts may have expired
		s.Totals.Accepted = s.Orders.All()
	}
	s.Points, err = w.readPoints(ctx, s)
	if without(err) && w.latest != nil {
		s.Points, err = w.latest.Points, nil
	}
	if without(err) {
		err = nil
	}
	s.Reading = w.read
	return s, err
}

// unitsOf sums the units of all SKUs, and the prices of the sold ones.
func unitsOf(a *core.Activity, audit core.GateAudit, present bool) (u Units, revenue int64) {
	for _, it := range a.Items {
		one := Units{it.Total, it.Available, it.Reserved, it.Sold}
		if present {
			g := audit.SKUs[it.SKUID]
			one = Units{g.Total, g.Left, g.Held, g.Sold}
		}
		u, revenue = u.plus(one), core.AddRevenue(revenue, one.Sold, it.Price)
	}
	return u, revenue
}

func (u Units) plus(o Units) Units {
	return Units{u.Total + o.Total, u.Left + o.Left, u.Held + o.Held, u.Sold + o.Sold}
}

// stock compares database and gate, if a comparison is due; else it returns the latest. A purchase that lands between
// the two readings appears as a difference, so such a comparison is repeated with the next sample.
func (w *watch) stock(
	ctx context.Context, before *core.Activity, audit core.GateAudit, present bool,
) (*merchants.StockView, error) {
	b := w.board
	if w.latest != nil && b.Now().Before(w.stockAt.Add(b.StockEvery)) {
		return w.latest.Stock, nil
	}
	after, err := b.Ledger.Activity(ctx, core.AllMerchants(), w.activityID)
	if err != nil {
		return nil, err
	}
	view, settled := merchants.CompareStock(before, after, audit, present, b.Now().UTC())
	if w.unequal++; !settled && w.latest != nil && w.unequal < stockReadings {
		return w.latest.Stock, nil
	}
	w.stockAt, w.unequal = b.Now(), 0
	return view, nil
}

// readPoints reads the requests that are not known yet, and returns the points of a sample.
func (w *watch) readPoints(ctx context.Context, s *Sample) ([]Point, error) {
	now := s.AsOf
	oldest := now.Add(-keepPoints)
	since := w.readAt.Add(-rereadFor)
	if since.Before(oldest) {
		since = oldest
	}
	seconds, err := w.board.Gate.RequestsSince(ctx, w.activityID, since)
	if err != nil {
		return nil, err
	}
	w.readAt = now
	w.read++
	for _, p := range seconds {
		if known, ok := w.points[p.At.Unix()]; !ok || !known.equal(p.Requests) {
			w.points[p.At.Unix()] = counted{p.Requests, w.read}
		}
	}
	w.units[now.Unix()] = s.Units
	for second := range w.points {
		if second < oldest.Unix() {
			delete(w.points, second)
		}
	}
	for second := range w.units {
		if second < oldest.Unix() {
			delete(w.units, second)
		}
	}
	settled := now.Add(-settleAfter).Unix()
	points := make([]Point, 0, len(w.points))
	for second, r := range w.points {
		if second > settled {
			continue
		}
		p := Point{Second: Second{time.Unix(second, 0).UTC(), r.Requests}, Changed: r.changed}
		if u, ok := w.units[second]; ok {
			p.Units = &u
		}
		points = append(points, p)
	}
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.At.Unix(), b.At.Unix()) })
	return points[max(0, len(points)-MaxPoints):], nil
}
