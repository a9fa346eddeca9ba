// Package relay carries reservations from the gates' journals to the message bus. An entry is acknowledged only after
// the broker has confirmed the message that holds it, so a relay that dies loses nothing: another one claims what it had
// read. A reservation may therefore be published more than once.
package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

// How the relay moves. A first purchase goes out at once; while more follow, gather lets them share messages. It grows while
// the journal never runs empty, as each message costs those behind the relay some transactions, however little is in it.
const (
	listEvery    = 200 * time.Millisecond // a new activity waits no longer than this
	gatherFirst  = 20 * time.Millisecond
	gatherLast   = 160 * time.Millisecond
	restLast     = 500 * time.Millisecond // of letting buyers go first
	lookEvery    = 500 * time.Millisecond // at the journal's length, meanwhile
	pollFirst    = 20 * time.Millisecond  // doubles while a journal stays empty
	pollLast     = time.Second
	retryFirst   = 20 * time.Millisecond // after an error; grows, with jitter
	retryLast    = time.Second           // how soon after an outage the journal moves again
	callBound    = 3 * time.Second       // of one call to Redis
	drainBound   = 5 * time.Second
	measureEvery = 5 * time.Second
	atOnce       = 8  // journals served at a time
	crowd        = 64 // purchases of one call of the gate, from which on buyers stand in line there
)

// Relay publishes the journals of all gates.
type Relay struct {
	journal  core.Journal
	bus      bus.Publisher
	tel      *telemetry.Telemetry
	consumer string
	slots    chan struct{}

	lag       metric.Float64Histogram
	published metric.Int64Counter
	failures  metric.Int64Counter
	length    *telemetry.Reading

	unreadable metric.Int64Counter

	yieldUpTo int64 // entries of a journal

	mu    sync.Mutex
	lines map[contract.GateRef]*line
	news  chan struct{} // a purchase at a gate that is not served yet
}

// line is one journal that is served.
type line struct {
	ref  contract.GateRef
	wake chan struct{}
	came atomic.Int64 // purchases accepted by this process, in a crowd, that rest has not counted

	length   int64 // of the journal, as last read
	lengthAt time.Time
}

// New starts nothing. consumer names this process among the relays of the installation; journalMax is how many entries a
// journal may hold.
func New(journal core.Journal, publisher bus.Publisher, tel *telemetry.Telemetry, consumer string, journalMax int64) (*Relay, error) {
	r := &Relay{
		journal: journal, bus: publisher, tel: tel, consumer: consumer, yieldUpTo: journalMax / 4 * 3,
		slots: make(chan struct{}, atOnce), lines: map[contract.GateRef]*line{}, news: make(chan struct{}, 1),
	}
	var err, e error
	r.lag, e = tel.Meter.Float64Histogram("flashsale.seckill.relay.lag", metric.WithUnit("s"),
		metric.WithDescription("From the acceptance of a reservation to its confirmed message"),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300))
	err = errors.Join(err, e)
	r.published, e = tel.Meter.Int64Counter("flashsale.seckill.relay.published", metric.WithUnit("{reservation}"),
		metric.WithDescription("Reservations in confirmed messages"))
	err = errors.Join(err, e)
	r.failures, e = tel.Meter.Int64Counter("flashsale.seckill.relay.failures",
		metric.WithDescription("Failed steps of the relay; each is tried again"))
	err = errors.Join(err, e)
	r.unreadable, e = tel.Meter.Int64Counter("flashsale.seckill.relay.unreadable", metric.WithUnit("{reservation}"),
		metric.WithDescription("Journal entries that could not be read and were taken off; their purchases are journaled again"))
	err = errors.Join(err, e)
	r.length, e = tel.Reading("flashsale.seckill.journal.length", metric.WithUnit("{reservation}"),
		metric.WithDescription("Reservations accepted and not yet published, over all gates. No value while Redis does not respond"))
	return r, errors.Join(err, e)
}

// Accepted tells that this process has accepted n purchases of this gate with one call. It does not wait.
func (r *Relay) Accepted(ref contract.GateRef, n int) {
	r.mu.Lock()
	l := r.lines[ref]
	r.mu.Unlock()
	wake := r.news
	if l != nil {
		if n >= crowd {
			l.came.Add(int64(n))
		}
		wake = l.wake
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, and then what is left as far as time and the broker allow.
func (r *Relay) Run(ctx context.Context) error {
	served := map[contract.GateRef]context.CancelFunc{}
	var loops sync.WaitGroup
	defer loops.Wait()
	list := time.NewTicker(listEvery)
	defer list.Stop()
	measure := time.NewTicker(measureEvery)
	defer measure.Stop()
	for {
		listed := r.follow(ctx, &loops, served)
		select {
		case <-ctx.Done():
			return nil
		case <-list.C:
		case <-r.news:
		case <-measure.C:
			r.measure(ctx, served, listed)
		}
	}
}

// follow begins a loop for each gate that is new and ends those of gates that are gone. It fails when the gates cannot be
// listed; the loops report that, and the next round lists again.
func (r *Relay) follow(ctx context.Context, loops *sync.WaitGroup, served map[contract.GateRef]context.CancelFunc) error {
	call, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	refs, err := r.journal.Refs(call)
	if err != nil {
		return err
	}
	there := make(map[contract.GateRef]bool, len(refs))
	for _, ref := range refs {
		there[ref] = true
		if served[ref] != nil || ctx.Err() != nil {
			continue
		}
		l := &line{ref: ref, wake: make(chan struct{}, 1)}
		r.mu.Lock()
		r.lines[ref] = l
		r.mu.Unlock()
		own, stop := context.WithCancel(ctx)
		served[ref] = stop
		loops.Go(func() { r.serve(own, l) })
	}
	for ref, stop := range served {
		if !there[ref] {
			stop()
			delete(served, ref)
			r.mu.Lock()
			delete(r.lines, ref)
			r.mu.Unlock()
		}
	}
	return nil
}

// measure records how much waits in all journals. One that cannot be read makes the sum unknown, and so do gates that could
// not be listed.
func (r *Relay) measure(ctx context.Context, served map[contract.GateRef]context.CancelFunc, listed error) {
	sum, err := int64(0), listed
	for ref := range served {
		if err != nil {
			break
		}
		call, cancel := context.WithTimeout(ctx, callBound)
		var n int64
		n, err = r.journal.Len(call, ref)
		cancel()
		sum += n
	}
	r.length.Record(sum, err)
}

// batch is what was read and is not acknowledged yet.
type batch struct {
	entries   []core.JournalEntry
	published bool
}

// serve carries one journal until ctx ends.
func (r *Relay) serve(ctx context.Context, l *line) {
	log := r.tel.Log.With("activity_id", l.ref.ActivityID)
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = retryFirst, retryLast
	var held batch
	idle, gather, failed := pollFirst, gatherFirst, 0
	for ctx.Err() == nil {
		n, took, err := r.step(ctx, l.ref, &held)
		if err != nil {
			if ctx.Err() != nil {
				break
			}
			r.failures.Add(ctx, 1)
			if failed++; failed == 1 {
				log.WarnContext(ctx, "relay cannot go on and keeps trying", "error", err)
			}
			wait(ctx, retry.NextBackOff(), nil)
			continue
		}
		if failed > 0 {
			log.InfoContext(ctx, "relay goes on", "failed_attempts", failed)
			failed = 0
			retry.Reset()
		}
		switch {
		case n == contract.MaxItems:
			idle = pollFirst
			wait(ctx, r.rest(ctx, l, n, took), nil)
		case n > 0:
			idle = pollFirst
			wait(ctx, gather, nil)
			gather = min(2*gather, gatherLast)
		default:
			gather = max(gather/2, gatherFirst)
			wait(ctx, jittered(idle), l.wake)
			idle = min(2*idle, pollLast)
		}
	}
	r.drain(ctx, l.ref, held)
}

// rest is how long to let buyers go first, after a full batch of n that took so long. While they crowd the gate, and more of
// them come than are carried away, the relay takes an eighth of the time: each message costs the same processors, Redis, and
// the whole way to the order what could answer those who press the button now, and the journal keeps what was accepted. It
// does not rest when the journal is three quarters full, so that this never is why a purchase is refused, nor once the rush is over.
func (r *Relay) rest(ctx context.Context, l *line, n int, took time.Duration) time.Duration {
	if l.came.Swap(0) < int64(n) {
		return 0
	}
	if time.Since(l.lengthAt) > lookEvery {
		call, cancel := context.WithTimeout(ctx, callBound)
		length, err := r.journal.Len(call, l.ref)
		cancel()
		if err != nil {
			return 0 // it shows in the next step
		}
		l.length, l.lengthAt = length, time.Now()
	}
	if l.length > r.yieldUpTo {
		return 0
	}
	return min(7*took, restLast)
}

// drain publishes what this process accepted before it was told to stop. Others carry what comes after.
func (r *Relay) drain(ctx context.Context, ref contract.GateRef, held batch) {
	hard, cancel := lifecycle.DrainContext(ctx)
	defer cancel()
	hard, stop := context.WithTimeout(hard, drainBound)
	defer stop()
	for hard.Err() == nil {
		read := len(held.entries) == 0 // by this step; only then does its size tell whether more is there
		n, _, err := r.step(hard, ref, &held)
		if err != nil || read && n < contract.MaxItems {
			return
		}
	}
}

// step reads a batch, unless one is still held, publishes and acknowledges it. What fails is left in held for the next
// step. Its calls have bounds of their own, so that the end of the process does not cut one off halfway. It tells how many
// entries it carried and how long that took, once it was its turn.
func (r *Relay) step(ctx context.Context, ref contract.GateRef, held *batch) (n int, took time.Duration, err error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	began := time.Now()
	n, err = r.carry(ctx, ref, held)
	return n, time.Since(began), err
}

func (r *Relay) carry(ctx context.Context, ref contract.GateRef, held *batch) (int, error) {
	if len(held.entries) == 0 {
		call, cancel := bound(ctx, callBound)
		entries, err := r.journal.Read(call, ref, r.consumer, contract.MaxItems)
		cancel()
		if err != nil {
			return 0, fmt.Errorf("read journal: %w", err)
		}
		*held = batch{entries: entries}
		r.tellUnreadable(ctx, entries)
	}
	n := len(held.entries)
	if n == 0 {
		return 0, nil
	}
	if !held.published {
		if err := r.publish(ctx, held.entries); err != nil {
			return 0, err
		}
		held.published = true
	}
	ids := make([]string, n)
	for i, e := range held.entries {
		ids[i] = e.ID
	}
	call, cancel := bound(ctx, callBound)
	defer cancel()
	if err := r.journal.Ack(call, ref, ids); err != nil {
		return 0, fmt.Errorf("acknowledge journal: %w", err)
	}
	*held = batch{}
	return n, nil
}

// tellUnreadable calls somebody to entries that cannot be read. Those around them do not wait for him: they are acknowledged with the
// others, and inventory has their purchases journaled again from the gate's entries.
func (r *Relay) tellUnreadable(ctx context.Context, entries []core.JournalEntry) {
	for _, e := range entries {
		if e.Err != nil {
			r.unreadable.Add(ctx, 1)
			r.tel.Log.ErrorContext(ctx, "a journal entry cannot be read and is taken off", "error", e.Err)
		}
	}
}

func (r *Relay) publish(ctx context.Context, entries []core.JournalEntry) error {
	list := make([]contract.Reservation, 0, len(entries))
	for _, e := range entries {
		if e.Err == nil {
			list = append(list, e.Reservation)
		}
	}
	if len(list) == 0 {
		return nil
	}
	// Lines at their longest can make two messages. When one of them fails both go again; consumers know an order_sn.
	if err := items.Publish(context.WithoutCancel(ctx), r.bus, r.tel, contract.TopicReservations, time.Time{}, list); err != nil {
		return err
	}
	now := time.Now()
	for _, it := range list {
		r.lag.Record(ctx, max(0, now.Sub(it.ReservedAt).Seconds()))
	}
	r.published.Add(ctx, int64(len(list)))
	return nil
}

func bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// jittered keeps the relays of several processes from asking in step.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(rand.Int64N(int64(d/2))) //nolint:gosec // no secret depends on it
}

func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
