// Package redisless decides for each sale whether its gate or inventory's ledger decides purchases. Inventory owns the
// mode of a sale; a Watch reads it once a second. While Redis is unavailable, purchases and results go to inventory.
package redisless

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

const (
	readEvery   = time.Second            // between two readings of the modes
	readTimeout = 900 * time.Millisecond // of one reading
	probeEvery  = time.Second            // between two readings of the journals
	lostAfter   = 3 * time.Second        // without a response, until it is reported to inventory
	// settingAge bounds the age of a reading of what Redis has of a sale, before the first reading of the modes. It is
	// less than lostAfter: inventory decides no purchase sooner after it has published the setting.
	settingAge = time.Second
	// handOverSize is the number of purchases in one call, handOverTimeout its time-out.
	handOverSize    = contract.MaxItems
	handOverTimeout = 3 * time.Second
)

// Inventory is inventory's internal API.
type Inventory interface {
	Modes(ctx context.Context, lost map[string]time.Duration) (contract.Modes, error)
	Reserve(ctx context.Context, r contract.RedislessReserve) ([]contract.RedislessResult, error)
	Lookup(ctx context.Context, l contract.RedislessLookup) ([]contract.LedgerState, error)
}

// Redis reads what Redis has of a sale.
type Redis interface {
	// Sale returns the description of a sale.
	Sale(ctx context.Context, activityID string) (core.Sale, error)
	// Backlog returns the number of purchases in the journal, and the age of the oldest one. It fails with
	// core.ErrUnavailable while Redis is unavailable.
	Backlog(ctx context.Context, activityID string) (purchases int64, oldest time.Duration, err error)
}

// Watch holds the modes of the sales, and keeps what this process has accepted until it is published. It is safe for
// concurrent use.
type Watch struct {
	inventory Inventory
	redis     Redis
	log       *slog.Logger
	incidents metric.Int64Counter

	modes     atomic.Pointer[snapshot] // nil until the first reading
	reads     lifecycle.Failures       // only read uses it
	handOvers lifecycle.Failures       // only handOver uses it
	accepted  accepted
	holders   atomic.Int64 // processes with a worker id of inventory, 0 while unknown

	mu         sync.Mutex
	contacts   map[string]*contactTimes // by activity with a degraded sale
	ledgerFrom map[string]time.Time     // by activity, from when on results may come from the ledger
	handed     map[string]int64         // by activity, the outage for which this process has handed over what it had accepted
	paths      map[string]*bucket       // by activity, the paths that may be issued
	soldOut    map[string]time.Time     // by activity and SKU, when a purchase was refused for stock
	settings   map[string]setting       // by activity, until the modes are read for the first time
}

// setting is whether a sale may go on without Redis, by what Redis had of it at that time.
type setting struct {
	degraded bool
	at       time.Time // before it was read
}

// contactTimes is when a gate last responded, or before the first response when it was first called, and since when it
// does not respond. uncertain is set one probe before it has not responded for lostAfter, until the modes are read after
// its return: the sale may have become redisless, by the probe of another process.
type contactTimes struct {
	reached, lostSince time.Time
	uncertain          bool
}

// snapshot is one reading of the modes. It is never changed.
type snapshot struct {
	contract.Modes
	at   time.Time // before it was read
	byID map[string]*contract.ActivityMode
}

// NewWatch returns a Watch; Run starts it.
func NewWatch(inventory Inventory, redis Redis, tel *telemetry.Telemetry) (*Watch, error) {
	incidents, err := tel.Incidents()
	return &Watch{
		inventory: inventory, redis: redis, log: tel.Log, incidents: incidents, contacts: map[string]*contactTimes{},
		ledgerFrom: map[string]time.Time{}, handed: map[string]int64{}, paths: map[string]*bucket{},
		soldOut: map[string]time.Time{}, settings: map[string]setting{},
	}, err
}

// Run reads the modes and the journals, and hands over accepted purchases, until ctx ends. Then it hands over what this
// process still keeps of sales that are redisless, within the time of the shutdown.
func (w *Watch) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { w.every(ctx, readEvery, w.read) })
	loops.Go(func() { w.every(ctx, probeEvery, w.probe) })
	loops.Go(func() { w.every(ctx, readEvery/10, w.handOver) })
	loops.Wait()
	if kept, _ := w.accepted.count(); kept > 0 {
		drain, cancel := lifecycle.DrainContext(ctx)
		defer cancel()
		w.read(drain) // a sale may have become redisless since
		w.handOver(drain)
	}
	return nil
}

func (w *Watch) every(ctx context.Context, interval time.Duration, round func(ctx context.Context)) {
	for {
		began := time.Now()
		round(ctx)
		pause := max(interval-time.Since(began), 10*time.Millisecond)
		timer := time.NewTimer(pause - pause/10 + rand.N(pause/10+1)) //nolint:gosec // no secret depends on it
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// read reads the modes once. After an error the last ones stay.
func (w *Watch) read(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	at := time.Now()
	modes, err := w.inventory.Modes(call, w.lost(at))
	if ctx.Err() == nil {
		w.reads.Observe(ctx, w.log, "reading the modes of sales", err)
	}
	if err != nil {
		return // this process goes on by the last ones
	}
	s := &snapshot{Modes: modes, at: at, byID: make(map[string]*contract.ActivityMode, len(modes.Activities))}
	for i := range modes.Activities {
		s.byID[modes.Activities[i].ActivityID] = &modes.Activities[i]
	}
	last := w.modes.Load()
	for id, m := range s.byID {
		if before := last.of(id); before.Mode != m.Mode {
			if before.Mode == contract.ModeGate {
				w.mu.Lock()
				w.ledgerFrom[id] = time.Now().Add(validFor)
				w.mu.Unlock()
			}
			w.log.InfoContext(ctx, "mode of a sale", "activity_id", id, "mode", m.Mode, "outage", m.Outage)
		}
	}
	w.modes.Store(s)
	if last == nil {
		w.mu.Lock()
		clear(w.settings)
		w.mu.Unlock()
	}
	w.dropOthers(s)
	w.confirm(at)
}

// dropOthers drops what concerns activities without a degraded sale.
func (w *Watch) dropOthers(s *snapshot) {
	known := func(id string) bool { return s.byID[id] != nil }
	w.accepted.removeOthers(known)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.contacts, func(id string, _ *contactTimes) bool { return !known(id) })
	maps.DeleteFunc(w.ledgerFrom, func(id string, _ time.Time) bool { return !known(id) })
	maps.DeleteFunc(w.handed, func(id string, _ int64) bool { return !known(id) })
	maps.DeleteFunc(w.paths, func(id string, _ *bucket) bool { return s.of(id).Mode == contract.ModeGate })
	maps.DeleteFunc(w.soldOut, func(_ string, at time.Time) bool { return at.Before(s.at) })
}

// of returns the mode of an activity: gate if it has no degraded sale, or no modes are known.
func (s *snapshot) of(activityID string) contract.ActivityMode {
	if s != nil {
		if m := s.byID[activityID]; m != nil {
			return *m
		}
	}
	return contract.ActivityMode{ActivityID: activityID, Mode: contract.ModeGate}
}

// mode returns the mode of an activity as last read.
func (w *Watch) mode(activityID string) contract.ActivityMode { return w.modes.Load().of(activityID) }

// certainMode returns the mode of a sale, by which gate or ledger may be used for it. It fails with core.ErrBreakerOpen
// if neither may be used. That is while this process has lost the gate for long and has not read the modes since, or has
// not read the modes at all. It is also for validFor after the mode ceased to be gate, for results only: another process
// may still respond by the gate, which is behind the ledger.
func (w *Watch) certainMode(
	ctx context.Context, activityID string, results bool,
) (contract.ActivityMode, error) {
	s := w.modes.Load()
	m := s.of(activityID)
	switch {
	case s == nil:
		return m, w.withoutModes(ctx, activityID)
	case s.byID[activityID] == nil:
		return m, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	uncertain := false
	if m.Mode != contract.ModeGate {
		uncertain = results && time.Now().Before(w.ledgerFrom[activityID])
	} else if c := w.contacts[activityID]; c != nil {
		uncertain = c.uncertain
	}
	if uncertain {
		return m, core.ErrBreakerOpen
	}
	return m, nil
}

// withoutModes fails before the first reading of the modes, if neither gate nor ledger may be used for a sale. A sale that
// Redis has as a degraded one may have sold without its gate. Then the gate may be behind the ledger, and a purchase
// may be a later attempt of one that the ledger has. Other sales use their gates, however long inventory is down.
//
// No time bounds the refusal. Inventory may have sold without the gate until just before it was lost, and the gate
// stays behind until inventory has brought it up to date: while the modes cannot be read, waiting makes nothing
// certain.
func (w *Watch) withoutModes(ctx context.Context, activityID string) error {
	now := time.Now()
	w.mu.Lock()
	known, is := w.settings[activityID]
	w.mu.Unlock()
	if !is || now.Sub(known.at) > settingAge {
		sale, err := w.redis.Sale(ctx, activityID)
		if err != nil { // also of an absent sale: this Redis may have lost it
			return err
		}
		known = setting{sale.Degraded, now}
		w.mu.Lock()
		if w.modes.Load() == nil {
			w.settings[activityID] = known
		}
		w.mu.Unlock()
	}
	if known.degraded {
		return core.ErrBreakerOpen
	}
	return nil
}

// confirm ends the uncertainty about the gates that responded before a reading of the modes began.
func (w *Watch) confirm(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.contacts {
		if c.uncertain && c.lostSince.IsZero() && c.reached.Before(at) {
			c.uncertain = false
		}
	}
}

// validFor is for how long a reading of the mode gate is certain: inventory sells nothing without the gate before that
// time has passed since a sale became redisless.
const validFor = 2 * time.Second

// mayBeRedisless reports whether a purchase that the gate lacks may be in the ledger: this process has not read the
// modes for too long, as when it reaches Redis and not inventory.
func (w *Watch) mayBeRedisless(activityID string) bool {
	s := w.modes.Load()
	return s != nil && s.byID[activityID] != nil && time.Since(s.at) >= validFor
}

// Keeps reports whether accepted purchases of the activity are kept until they are published.
func (w *Watch) Keeps(activityID string) bool {
	s := w.modes.Load()
	return s != nil && s.byID[activityID] != nil
}

// Accepted keeps purchases that the gate has accepted. It does not block.
func (w *Watch) Accepted(activityID string, list []core.Acceptance) {
	w.accepted.add(activityID, list, time.Now())
}

// Kept returns the number of accepted purchases that are kept, and of those that were given up because of their number.
func (w *Watch) Kept() (kept int, dropped int64) { return w.accepted.count() }

// Redisless reports whether a sale is decided by the ledger now.
func (w *Watch) Redisless() bool {
	s := w.modes.Load()
	if s == nil {
		return false
	}
	for _, m := range s.byID {
		if m.Mode == contract.ModeRedisless {
			return true
		}
	}
	return false
}

// Holders records the number of processes that hold a worker id of inventory.
func (w *Watch) Holders(n int) { w.holders.Store(int64(n)) }

// probe reads the journal of each gate with a degraded sale: what was accepted before its oldest entry is published.
func (w *Watch) probe(ctx context.Context) {
	s := w.modes.Load()
	if s == nil {
		return
	}
	var probes sync.WaitGroup
	for id := range s.byID {
		probes.Go(func() {
			began := time.Now()
			call, cancel := context.WithTimeout(ctx, probeEvery)
			defer cancel()
			n, oldest, err := w.redis.Backlog(call, id)
			w.noteContact(id, err)
			switch {
			case err != nil:
			case n == 0:
				w.accepted.published(id, began)
			default:
				w.accepted.published(id, began.Add(-oldest))
			}
		})
	}
	probes.Wait()
}

func (w *Watch) noteContact(activityID string, err error) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.contacts[activityID]
	if c == nil {
		c = &contactTimes{reached: now}
		w.contacts[activityID] = c
	}
	if !unavailable(err) {
		c.reached, c.lostSince = now, time.Time{}
		return
	}
	if c.lostSince.IsZero() {
		c.lostSince = now
	}
	c.uncertain = c.uncertain || now.Sub(c.lostSince) >= lostAfter-probeEvery
}

// lost returns for how long each gate has not responded, from lostAfter on.
func (w *Watch) lost(now time.Time) map[string]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := map[string]time.Duration{}
	for id, c := range w.contacts {
		if !c.lostSince.IsZero() && now.Sub(c.lostSince) >= lostAfter {
			lost[id] = now.Sub(c.reached)
		}
	}
	return lost
}

// AdmitPath reports whether a path may be issued: while the sale is redisless, only its share of per_second.
func (w *Watch) AdmitPath(activityID string) bool {
	m := w.mode(activityID)
	if m.Mode != contract.ModeRedisless {
		return true
	}
	share := float64(m.PerSecond) / float64(max(1, w.holders.Load()))
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.paths[activityID]
	if b == nil {
		b = &bucket{}
		w.paths[activityID] = b
	}
	return b.take(now, share)
}

// RoomPace returns how many places a second the waiting room of a sale may admit without Redis: its rate, and no more than
// the purchases that the sale may have. It is 0 unless the sale is redisless and open, by modes that were read lately.
func (w *Watch) RoomPace(activityID string) int64 {
	s := w.modes.Load()
	m := s.of(activityID)
	if m.Mode != contract.ModeRedisless || m.Sale == nil || time.Since(s.at) > lostAfter {
		return 0
	}
	if state, err := w.state(m); err != nil || state.StateAt(s.now()) != core.StateOpen {
		return 0
	}
	return min(m.Sale.RoomRate, m.PerSecond)
}

// bucket admits a number of calls a second, and at most those of one second at once.
type bucket struct {
	left float64
	at   time.Time
}

func (b *bucket) take(now time.Time, perSecond float64) bool {
	most := max(1, perSecond)
	if b.at.IsZero() {
		b.left = most
	} else {
		b.left = min(most, b.left+now.Sub(b.at).Seconds()*perSecond)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// noteSoldOut records that a purchase of these lines was refused for stock: the SKU counts as sold out until the modes
// are read again.
func (w *Watch) noteSoldOut(activityID string, lines []contract.Line) {
	if len(lines) != 1 {
		return // which SKU is short is not known
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.soldOut[activityID+" "+lines[0].SKUID] = time.Now()
}

// now returns the time of inventory's database, by the last reading.
func (s *snapshot) now() time.Time { return s.Now.Add(time.Since(s.at)) }

// admissionRules are the rules that this process enforces while the mode of a sale is not gate.
var admissionRules = []contract.AdmissionRule{contract.RuleRoom, contract.RuleChallenge}

// state returns the state of a sale whose mode is not gate. A SKU that is sold out may return: units are held back. It
// fails for a sale with a rule of a later release, so that no buyer evades it.
func (w *Watch) state(m contract.ActivityMode) (core.GateState, error) {
	for _, rule := range m.Sale.Rules {
		if !slices.Contains(admissionRules, rule) {
			return core.GateState{}, fmt.Errorf("%w: activity %s has the unknown rule %q", core.ErrBreakerOpen, m.ActivityID, rule)
		}
	}
	challenge, err := contract.ParseChallenge(m.Sale.Challenge)
	if err != nil {
		return core.GateState{}, fmt.Errorf("%w: activity %s: %w", core.ErrBreakerOpen, m.ActivityID, err)
	}
	st := core.GateState{
		Challenge: challenge, RoomRate: m.Sale.RoomRate,
		State: core.State(m.Sale.State), StartsAt: m.Sale.StartsAt, EndsAt: m.Sale.EndsAt,
		Left: make(map[string]int64, len(m.Sale.Items)), Unpaid: make(map[string]time.Time, len(m.Sale.Items)),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, it := range m.Sale.Items {
		st.Left[it.SKUID], st.Unpaid[it.SKUID] = it.Left, time.Time{}
		if _, out := w.soldOut[m.ActivityID+" "+it.SKUID]; out {
			st.Left[it.SKUID] = 0
		}
	}
	return st, nil
}
