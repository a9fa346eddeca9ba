// Package priority decides whether buyers or landing go first while the machine cannot serve both at once. It measures
// what buyers wait for, how much has not landed, and how fast it lands. The relay publishes and the gate accepts at the
// rates that it sets.
//
//   - While nothing waits, neither rate is limited.
//   - While buyers wait, the relay publishes a small part of what is accepted. The messages it publishes cost Redis, the
//     consumers and the processors of this machine time that the buyers need.
//   - While the backlog is too large, landing goes first: the relay does not yield, and purchases are accepted at the
//     landing rate. They wait for the gate and are not refused.
package priority

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/telemetry"
)

const (
	// yieldShare is the part of the accepted purchases that the relay publishes while it yields to buyers. Landing never
	// stops: the relay publishes a message at least every maxYield.
	yieldShare = 0.2
	maxYield   = 500 * time.Millisecond

	observeInterval = 100 * time.Millisecond // of the buyers' delay
	measureInterval = 500 * time.Millisecond // of the backlog
	measureTimeout  = 500 * time.Millisecond // of one gate
	// quietMeasurements is the number of measurements without an accepted or landed purchase after which a gate is no
	// longer measured.
	quietMeasurements = 10
	// paceMaxAge is the age from which the pace of purchases is ignored, because the backlog could not be measured.
	paceMaxAge = 3 * time.Second
	// paceCredit is how far acceptance may be behind its pace and catch up: about one call.
	paceCredit = 20 * time.Millisecond
	maxPause   = time.Second // of the gate, between two calls

	// While landing goes first, at most this many purchases, or those of a second at the landing rate, are published and
	// have not landed. More would not land sooner, and would still take the time of buyers when these go first again.
	minInFlight   = 4096
	inFlightPause = 20 * time.Millisecond
)

// Backlog is how far landing is behind one gate.
type Backlog struct {
	JournalLen  int64         // journaled purchases that are not acknowledged yet
	OldestAge   time.Duration // of the oldest entry in the journal
	UnlandedLen int64         // purchases that are not known to be in the ledger
	Purchases   int64         // purchases that the gate has had
	Build       string        // changes when the gate is built again
}

// Gates reads the backlog of a gate, in O(1).
type Gates interface {
	Backlog(ctx context.Context, activityID string) (Backlog, error)
}

// Controller applies the decisions to all gates of this process. Its methods may be called concurrently and do not
// block.
type Controller struct {
	gates Gates
	room  int64 // purchases that one journal may hold
	log   *slog.Logger
	rate  *telemetry.Reading

	mu sync.Mutex
	// Since the last observation of the buyers.
	observedAt time.Time
	accepted   int64
	waited     time.Duration // sum for waiters
	waiters    int64
	queue      *runQueue

	buyers       buyers
	acceptedRate float64 // purchases a second that this process accepts, mean of about a second
	publishing   pacer
	accepting    pacer

	// Since the last measurement of the backlog.
	measuredAt  time.Time
	ownAccepted int64
	published   int64 // by this process
	yielded     bool
	inFlight    int64 // at that measurement: published and not landed
	decision    decision
	watched     map[string]*watched
	wake        chan struct{} // signals the first watched gate
}

// watched is a gate whose backlog is measured.
type watched struct {
	last  Backlog
	known bool // last is set
	quiet int  // measurements without an accepted or landed purchase
}

// New returns a controller; Run starts its measurements. room is the number of purchases that a journal may hold.
func New(gates Gates, tel *telemetry.Telemetry, room int64) (*Controller, error) {
	c := &Controller{
		gates: gates, room: room, log: tel.Log, queue: newRunQueue(), observedAt: time.Now(),
		watched: map[string]*watched{}, wake: make(chan struct{}, 1),
	}
	var errs [3]error
	c.rate, errs[0] = tel.Reading("flashsale.seckill.landing.rate", metric.WithUnit("{purchase}"),
		metric.WithDescription("Purchases that land per second while landing has priority, as last measured; no sample "+
			"before the first measurement"))
	first, err := tel.Meter.Int64ObservableGauge("flashsale.seckill.priority",
		metric.WithDescription("What goes first: 0 neither, 1 buyers, because they wait, 2 landing, because of its backlog"))
	errs[1] = err
	_, errs[2] = tel.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(first, c.first())
		return nil
	}, first)
	return c, errors.Join(errs[:]...)
}

func (c *Controller) first() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.decision.landingFirst:
		return 2
	case c.buyers.wait && time.Since(c.observedAt) < 2*calmAfter:
		return 1
	}
	return 0
}

// Waited records that n purchases waited that long, on average, while an earlier call of their gate was in flight.
func (c *Controller) Waited(n int, mean time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters += int64(n)
	c.waited += time.Duration(n) * mean
}

// Accepted records that this process accepted n purchases with one call.
func (c *Controller) Accepted(n int) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted += int64(n)
	c.ownAccepted += int64(n)
	if c.decision.pace > 0 {
		c.accepting.take(now.Add(-paceCredit), n, c.decision.pace, maxPause)
	}
	c.observeBuyers(now)
}

// AcceptDelay returns the time until the next call to a gate, so that no more purchases are accepted than land.
func (c *Controller) AcceptDelay() time.Duration {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.decision.pace == 0 || now.Sub(c.measuredAt) > paceMaxAge {
		return 0
	}
	return c.accepting.delay(now)
}

// YieldToBuyers returns the pause of the relay after a full message of n purchases that took that long, while the
// journal of the gate holds more. It is 0 unless buyers wait and go first, or more is published than lands in a second.
func (c *Controller) YieldToBuyers(activityID string, n int, took time.Duration) time.Duration {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch(activityID)
	c.observeBuyers(now)
	c.published += int64(n)
	if c.decision.landingFirst {
		if c.inFlight+c.published > max(minInFlight, int64(c.decision.rate)) && now.Sub(c.measuredAt) <= paceMaxAge {
			return inFlightPause
		}
		return 0
	}
	if !c.buyers.wait {
		return 0
	}
	c.yielded = true
	c.publishing.take(now.Add(-took), n, yieldShare*c.acceptedRate, maxYield)
	return c.publishing.delay(now)
}

// watch starts to measure the backlog of a gate.
func (c *Controller) watch(activityID string) {
	if c.watched[activityID] != nil {
		return
	}
	c.watched[activityID] = &watched{}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// observeBuyers decides whether buyers wait, if the last decision is observeInterval old.
func (c *Controller) observeBuyers(now time.Time) {
	took := now.Sub(c.observedAt)
	if took < observeInterval {
		return
	}
	delay := c.queue.mean()
	if c.waiters > 0 {
		delay += c.waited / time.Duration(c.waiters)
	}
	c.buyers.observe(took, c.accepted, delay)
	c.acceptedRate += min(took.Seconds(), 1) * (perSecond(c.accepted, took) - c.acceptedRate)
	c.observedAt, c.accepted, c.waited, c.waiters = now, 0, 0, 0
}

// Run measures the backlog while the relay finds full messages in a journal, and until that has landed. It ends with
// ctx.
func (c *Controller) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
		c.mu.Lock()
		c.measuredAt, c.ownAccepted, c.published, c.yielded = time.Now(), 0, 0, false
		c.mu.Unlock()
		tick := time.NewTicker(measureInterval)
		for c.measure(ctx) {
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C:
			}
		}
		tick.Stop()
	}
}

// measure reads the backlog of all watched gates and decides. It returns false when no gate is watched any more. Only
// Run calls it.
func (c *Controller) measure(ctx context.Context) bool {
	c.mu.Lock()
	activityIDs := make([]string, 0, len(c.watched))
	for activityID := range c.watched {
		activityIDs = append(activityIDs, activityID)
	}
	c.mu.Unlock()
	read := make(map[string]Backlog, len(activityIDs))
	for _, activityID := range activityIDs {
		call, cancel := context.WithTimeout(ctx, measureTimeout)
		b, err := c.gates.Backlog(call, activityID)
		cancel()
		if err == nil {
			read[activityID] = b
		}
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observeBuyers(now)
	before := c.decision.landingFirst
	m := measurement{
		took: now.Sub(c.measuredAt), own: c.ownAccepted, yielded: c.yielded || c.buyers.wait && !before,
	}
	c.measuredAt, c.ownAccepted, c.published, c.yielded = now, 0, 0, false
	for _, activityID := range activityIDs {
		b, ok := read[activityID]
		if w := c.watched[activityID]; !w.add(&m, b, ok, c.room) {
			delete(c.watched, activityID)
		}
	}
	c.inFlight = max(m.unlanded-m.journaled, 0)
	if len(c.watched) == 0 {
		c.decision = decision{rate: c.decision.rate}
	} else {
		c.decision.observe(m)
	}
	c.report(ctx, m, before)
	return len(c.watched) > 0
}

// add adds the backlog of a gate to m. A gate whose backlog could not be read adds nothing. It returns false if the gate
// needs no further measurement.
func (w *watched) add(m *measurement, b Backlog, ok bool, room int64) bool {
	w.quiet++
	if !ok {
		w.known = false
		return w.quiet < quietMeasurements
	}
	if w.known && b.Build == w.last.Build {
		accepted := max(b.Purchases-w.last.Purchases, 0)
		landed := max(w.last.UnlandedLen+accepted-b.UnlandedLen, 0)
		if accepted+landed > 0 {
			w.quiet = 0
		}
		m.accepted += accepted
		m.landed += landed
	}
	m.unlanded += b.UnlandedLen
	m.journaled += b.JournalLen
	m.oldest = max(m.oldest, b.OldestAge)
	m.full = max(m.full, float64(b.JournalLen)/float64(room))
	w.last, w.known = b, true
	return w.quiet < quietMeasurements
}

func (c *Controller) report(ctx context.Context, m measurement, before bool) {
	if c.decision.rate > 0 {
		c.rate.Record(int64(c.decision.rate), nil)
	}
	if c.decision.landingFirst == before {
		return
	}
	message := "landing no longer goes first, buyers do when they wait"
	if c.decision.landingFirst {
		message = "landing is far behind and goes first, purchases are accepted at the landing rate"
	}
	c.log.InfoContext(ctx, message, "unlanded", m.unlanded, "oldest", m.oldest, "journal_used_percent", int(100*m.full),
		"landing_rate", int(c.decision.rate))
}
