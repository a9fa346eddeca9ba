// Package relay publishes reservations from the journals of the gates to the message bus. It acknowledges an entry
// only after the broker or, without it, inventory confirmed the message that holds it. A relay that dies therefore loses
// nothing: another one claims the entries that it had read. A reservation may be published more than once.
package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/telemetry"
)

// Timing and bounds of the relay. The first purchase is published at once. While more follow, a pause after each batch
// lets several share a message. The pause grows while the journal never runs empty, because each message costs the
// consumers several transactions, however few reservations it holds.
const (
	listInterval    = 200 * time.Millisecond // between two listings of the gates; bounds the delay of a new activity
	minBatchPause   = 20 * time.Millisecond  // after a batch that is not full
	maxBatchPause   = 160 * time.Millisecond
	minPoll         = 20 * time.Millisecond // pause after an empty read; doubles while the journal stays empty
	maxPoll         = time.Second
	minRetry        = 20 * time.Millisecond // pause after an error; grows, with jitter
	maxRetry        = time.Second           // bounds the delay of the journal after an outage
	callTimeout     = 3 * time.Second       // of one call to Redis
	drainTimeout    = 5 * time.Second
	measureInterval = 5 * time.Second
	maxConcurrent   = 8 // journals published at a time
)

// YieldToBuyers returns the pause after a full message of n reservations that took that long, while the journal of the
// gate holds more. The pause keeps landing from taking what waiting buyers need.
type YieldToBuyers func(activityID string, n int, took time.Duration) time.Duration

// Relay publishes the journals of all gates.
type Relay struct {
	journal  Journal
	bus      bus.Publisher
	tel      *telemetry.Telemetry
	consumer string
	yield    YieldToBuyers
	slots    chan struct{}

	lag                       metric.Float64Histogram
	failures                  metric.Int64Counter
	length, notLanded, oldest *telemetry.Reading

	unreadable metric.Int64Counter

	mu      sync.Mutex
	loops   map[string]*loop
	newGate chan struct{} // signals a purchase at a gate that has no loop yet
}

// loop is the state of the loop that publishes one journal.
type loop struct {
	activityID string
	wake       chan struct{}
}

// New returns a relay; Run starts it. consumer names this process among the relays of the installation.
func New(
	journal Journal, publisher bus.Publisher, tel *telemetry.Telemetry, consumer string, yield YieldToBuyers,
) (*Relay, error) {
	r := &Relay{
		journal: journal, bus: publisher, tel: tel, consumer: consumer, yield: yield,
		slots: make(chan struct{}, maxConcurrent),
		loops: map[string]*loop{}, newGate: make(chan struct{}, 1),
	}
	var err, e error
	r.lag, e = tel.Meter.Float64Histogram("flashsale.seckill.relay.lag", metric.WithUnit("s"),
		metric.WithDescription("Time from a reservation's acceptance at the gate to the broker's confirmation of its "+
			"message"),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300))
	err = errors.Join(err, e)
	r.failures, e = telemetry.NewCounter(tel.Meter, "flashsale.seckill.relay.failures", "",
		"Failed attempts to read, publish or acknowledge a batch; each is retried")
	err = errors.Join(err, e)
	r.unreadable, e = telemetry.NewCounter(tel.Meter, "flashsale.seckill.relay.unreadable", "{reservation}",
		"Journal entries removed as unreadable; inventory journals their purchases again")
	err = errors.Join(err, e)
	r.length, e = tel.Reading("flashsale.seckill.journal.length", metric.WithUnit("{reservation}"),
		metric.WithDescription("Accepted reservations that are not yet published, in all gates. No value while Redis is "+
			"down"))
	err = errors.Join(err, e)
	r.notLanded, e = tel.Reading("flashsale.seckill.not_landed", metric.WithUnit("{purchase}"),
		metric.WithDescription("Accepted purchases that are not known to be in the ledger, of all gates. No value while "+
			"Redis is down"))
	err = errors.Join(err, e)
	r.oldest, e = tel.Reading("flashsale.seckill.not_landed.age", metric.WithUnit("s"),
		metric.WithDescription("Time since the oldest purchase that has not landed was journaled; 0 without one. No value "+
			"while Redis is down"))
	return r, errors.Join(err, e)
}

// Accepted reports that this process accepted purchases of a gate. It wakes the loop of that journal and does not block.
func (r *Relay) Accepted(activityID string) {
	r.mu.Lock()
	l := r.loops[activityID]
	r.mu.Unlock()
	wake := r.newGate
	if l != nil {
		wake = l.wake
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends. Then each loop publishes what is left in its journal, as far as its time and the broker
// allow (drain).
func (r *Relay) Run(ctx context.Context) error {
	stops := map[string]context.CancelFunc{}
	var running sync.WaitGroup
	defer running.Wait()
	list := time.NewTicker(listInterval)
	defer list.Stop()
	measure := time.NewTicker(measureInterval)
	defer measure.Stop()
	for {
		listErr := r.updateLoops(ctx, &running, stops)
		select {
		case <-ctx.Done():
			return nil
		case <-list.C:
		case <-r.newGate:
		case <-measure.C:
			r.measure(ctx, stops, listErr)
		}
	}
}

// updateLoops starts a loop for each new gate and stops those of deleted gates. It fails when the gates cannot be
// listed; the loops report Redis failures themselves, and the next round lists again.
func (r *Relay) updateLoops(
	ctx context.Context, running *sync.WaitGroup, stops map[string]context.CancelFunc,
) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	activityIDs, err := r.journal.Registered(call)
	if err != nil {
		return err
	}
	listed := make(map[string]bool, len(activityIDs))
	for _, activityID := range activityIDs {
		listed[activityID] = true
		if stops[activityID] != nil || ctx.Err() != nil {
			continue
		}
		l := &loop{activityID: activityID, wake: make(chan struct{}, 1)}
		r.mu.Lock()
		r.loops[activityID] = l
		r.mu.Unlock()
		own, stop := context.WithCancel(ctx)
		stops[activityID] = stop
		running.Go(func() { r.run(own, l) })
	}
	for activityID, stop := range stops {
		if !listed[activityID] {
			stop()
			delete(stops, activityID)
			r.mu.Lock()
			delete(r.loops, activityID)
			r.mu.Unlock()
		}
	}
	return nil
}

// measure records the sum of the backlogs of all gates. If one of them cannot be read, or the gates could not be listed,
// the sum is unknown.
func (r *Relay) measure(ctx context.Context, stops map[string]context.CancelFunc, listErr error) {
	sum, err := Backlog{}, listErr
	for activityID := range stops {
		if err != nil {
			break
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		var b Backlog
		b, err = r.journal.Backlog(call, activityID)
		cancel()
		sum = Backlog{sum.Journaled + b.Journaled, sum.NotLanded + b.NotLanded, max(sum.Oldest, b.Oldest)}
	}
	r.length.Record(sum.Journaled, err)
	r.notLanded.Record(sum.NotLanded, err)
	r.oldest.Record(int64(sum.Oldest/time.Second), err)
}

// batch holds the reservations that were read and are not acknowledged yet.
type batch struct {
	entries   []Entry
	more      bool // the journal held others, so the batch is full
	published bool
}

// run publishes one journal until ctx ends.
func (r *Relay) run(ctx context.Context, l *loop) {
	log := r.tel.Log.With("activity_id", l.activityID)
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = minRetry, maxRetry
	// The jitter keeps the relays of several processes from polling at the same moments.
	poll := &backoff.ExponentialBackOff{
		InitialInterval: minPoll, MaxInterval: maxPoll, Multiplier: 2, RandomizationFactor: 0.25,
	}
	var pending batch
	batchPause := minBatchPause
	var failures lifecycle.Failures
	for ctx.Err() == nil {
		done, took, err := r.step(ctx, l.activityID, &pending)
		if err != nil && ctx.Err() != nil {
			break
		}
		failures.Observe(ctx, log, "publishing the journal", err)
		if err != nil {
			r.failures.Add(ctx, 1)
			wait(ctx, retry.NextBackOff(), nil)
			continue
		}
		retry.Reset()
		switch {
		case done.more:
			poll.Reset()
			wait(ctx, r.yield(l.activityID, len(done.entries), took), nil)
		case len(done.entries) > 0:
			poll.Reset()
			wait(ctx, batchPause, nil)
			batchPause = min(2*batchPause, maxBatchPause)
		default:
			batchPause = max(batchPause/2, minBatchPause)
			wait(ctx, poll.NextBackOff(), l.wake)
		}
	}
	r.drain(ctx, l.activityID, pending)
}

// drain publishes what the journal holds now and no other relay has read, also the purchases that other processes
// accepted. It ends when a batch is not full, after an error or after drainTimeout. Other relays publish what remains.
func (r *Relay) drain(ctx context.Context, activityID string, pending batch) {
	hard, cancel := lifecycle.DrainContext(ctx)
	defer cancel()
	hard, stop := context.WithTimeout(hard, drainTimeout)
	defer stop()
	for hard.Err() == nil {
		read := len(pending.entries) == 0 // in this step; only then a batch that is not full means an empty journal
		done, _, err := r.step(hard, activityID, &pending)
		if err != nil || read && !done.more {
			return
		}
	}
}

// step waits for a slot, then reads a batch (unless one is pending), publishes and acknowledges it. It returns the
// batch and the time since it got the slot. After an error the batch stays pending for the next step. Its calls have
// time-outs of their own, so that the end of the process does not cancel one halfway.
func (r *Relay) step(
	ctx context.Context, activityID string, pending *batch,
) (done batch, took time.Duration, err error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return batch{}, 0, ctx.Err()
	}
	began := time.Now()
	done, err = r.publishBatch(ctx, activityID, pending)
	return done, time.Since(began), err
}

func (r *Relay) publishBatch(ctx context.Context, activityID string, pending *batch) (done batch, err error) {
	if len(pending.entries) == 0 {
		call, cancel := detached(ctx, callTimeout)
		entries, more, err := r.journal.Read(call, activityID, r.consumer, contract.MaxItems)
		cancel()
		if err != nil {
			return batch{}, fmt.Errorf("read journal: %w", err)
		}
		*pending = batch{entries: entries, more: more}
		r.reportUnreadable(ctx, entries)
	}
	if len(pending.entries) == 0 {
		return batch{}, nil
	}
	if !pending.published {
		if err := r.publish(ctx, pending.entries); err != nil {
			return batch{}, err
		}
		pending.published = true
	}
	ids := make([]string, len(pending.entries))
	for i, e := range pending.entries {
		ids[i] = e.ID
	}
	call, cancel := detached(ctx, callTimeout)
	defer cancel()
	if err := r.journal.Ack(call, activityID, ids); err != nil {
		return batch{}, fmt.Errorf("acknowledge journal: %w", err)
	}
	done, *pending = *pending, batch{}
	return done, nil
}

// reportUnreadable logs and counts entries that cannot be read. They are acknowledged with the others of their batch,
// so that they block no reservation. Inventory journals their purchases again from the gate's entries.
func (r *Relay) reportUnreadable(ctx context.Context, entries []Entry) {
	for _, e := range entries {
		if e.Err != nil {
			r.unreadable.Add(ctx, 1)
			r.tel.Log.ErrorContext(ctx, "journal entry unreadable, removing it", "error", e.Err)
		}
	}
}

func (r *Relay) publish(ctx context.Context, entries []Entry) error {
	list := make([]contract.Reservation, 0, len(entries))
	for _, e := range entries {
		if e.Err == nil {
			list = append(list, e.Reservation)
		}
	}
	if len(list) == 0 {
		return nil
	}
	// A batch of the longest lines needs several messages. If one of them fails, both are published again; consumers are
	// idempotent by order_sn.
	err := items.Publish(context.WithoutCancel(ctx), r.bus, r.tel, contract.TopicReservations, time.Time{}, list)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, it := range list {
		r.lag.Record(ctx, max(0, now.Sub(it.ReservedAt).Seconds()))
	}
	return nil
}

// detached returns a context that ends by its time-out only, not with ctx.
func detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// wait returns after d, when ctx ends, or when wake delivers.
func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Journal holds, for each gate, the accepted reservations that are not published yet.
type Journal interface {
	// Registered returns the activities of all gates, ended ones too.
	Registered(ctx context.Context) ([]string, error)
	// Read returns about limit reservations for this consumer: first those that a dead consumer did not acknowledge, then
	// new ones. more reports that others wait, which did not fit.
	Read(ctx context.Context, activityID, consumer string, limit int) (entries []Entry, more bool, err error)
	// Ack removes reservations. Those with the same id are removed together.
	Ack(ctx context.Context, activityID string, ids []string) error
	// Backlog returns what waits. It is empty for a gate that does not exist.
	Backlog(ctx context.Context, activityID string) (Backlog, error)
}

// Backlog is what waits of a gate's purchases.
type Backlog struct {
	Journaled int64         // not removed from the journal yet
	NotLanded int64         // not known to be in the ledger
	Oldest    time.Duration // since the oldest of those was journaled; 0 without one
}

// Entry is one reservation in the journal.
type Entry struct {
	ID  string // shared by reservations that were journaled together; Read returns these together
	Err error  // set if the entry cannot be read; Reservation is empty then
	contract.Reservation
}
