package room

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

const (
	lockName = "waiting rooms"

	tickInterval = 200 * time.Millisecond
	listInterval = time.Second
	// retryInterval is the pause before the next try to become the controller.
	retryInterval = time.Second
	callTimeout   = 3 * time.Second
	drawTimeout   = time.Minute // to read the tickets of a draw
	// maxCredit bounds what is admitted at once after a pause of the controller.
	maxCredit = time.Second
	// stuckAfter is how long the room of an open sale may fail to admit before it is an incident.
	stuckAfter = 5 * time.Second
	// stuckLogInterval is the time between two log messages about a room that does not move on.
	stuckLogInterval = time.Minute
)

// Locks runs work in one process at a time. fence is larger than that of all earlier holders.
type Locks interface {
	Do(ctx context.Context, name string, work func(ctx context.Context, fence int64) error) error
}

// Deps are the dependencies of a Controller.
type Deps struct {
	Rooms Store
	// List returns the activities that have a waiting room and have not ended.
	List  func(ctx context.Context) ([]string, error)
	Locks Locks
	// Beacon is the public randomness of the draws; nil for none.
	Beacon Beacon
	// Now is the clock of this process; only differences are used.
	Now func() time.Time
}

// Controller moves the waiting rooms on while this process holds the lock.
type Controller struct {
	Deps
	log  *slog.Logger
	pace pace
	admitted,
	incidents metric.Int64Counter
	rooms map[string]*progress // of Run, which is one goroutine
}

// progress is what the controller has of one room.
type progress struct {
	room   Room
	read   bool // room was read
	credit float64
	at     time.Time // of the last admission
	tried  time.Time // when the beacon was last requested
	beacon error     // why it could not be read then

	readAt   time.Time // when room was read
	failing  time.Time // since when every step has failed; zero after a step that did not
	stuck    bool      // an incident was raised since then
	loggedAt time.Time // of the last message since then
}

// New returns a Controller; Run makes it work.
func New(d Deps, tel *telemetry.Telemetry) (*Controller, error) {
	c := &Controller{Deps: d, log: tel.Log}
	var err error
	c.admitted, err = telemetry.NewCounter(tel.Meter, "flashsale.seckill.room.admitted", "{place}",
		"Places of waiting rooms that were admitted")
	if err != nil {
		return nil, err
	}
	if c.incidents, err = tel.Incidents(); err != nil {
		return nil, err
	}
	_, err = tel.Meter.Float64ObservableGauge("flashsale.seckill.room.pace",
		metric.WithDescription("Part of the configured rate at which the controller admits places"),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(c.pace.share())
			return nil
		}))
	return c, err
}

// Waited reports the mean wait of the purchases of a gate call. It does not block.
func (c *Controller) Waited(_ int, mean time.Duration) { c.pace.waited(mean) }

// Shed reports a request that was refused because too many were in flight. It does not block.
func (c *Controller) Shed() { c.pace.shed() }

// Run tries to become the controller until ctx ends, as long as there are rooms, and works while it is.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if c.list(ctx); len(c.rooms) > 0 {
			// After an error another process holds the lock, or Redis is unreachable: then all counters stay as they are.
			_ = c.Locks.Do(ctx, lockName, c.work)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval/2 + rand.N(retryInterval)): //nolint:gosec // jitter
		}
	}
	return nil
}

// work moves all rooms on until there is none, ctx ends, or a later controller has called.
func (c *Controller) work(ctx context.Context, fence int64) error {
	listedAt := c.Now()
	for _, p := range c.rooms {
		*p = progress{} // of an earlier time as the controller
	}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for len(c.rooms) > 0 {
		c.pace.adjust()
		for id, p := range c.rooms {
			err := c.step(ctx, id, p, fence)
			if errors.Is(err, ErrFenced) {
				return err
			}
			if ctx.Err() == nil {
				c.watch(ctx, id, p, err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if now := c.Now(); now.Sub(listedAt) >= listInterval {
			listedAt = now
			c.list(ctx)
		}
	}
	return nil
}

// watch logs once a minute why a room does not move on, and raises an incident if its sale is open and no place has been
// admitted for stuckAfter.
func (c *Controller) watch(ctx context.Context, id string, p *progress, err error) {
	if err == nil || rests(err) {
		p.failing, p.stuck, p.loggedAt = time.Time{}, false, time.Time{}
		return
	}
	now := c.Now()
	if p.failing.IsZero() {
		p.failing = now
	}
	if now.Sub(p.failing) < stuckAfter {
		return
	}
	started := p.read && p.room.State == core.StateOpen && !p.room.Now.Add(now.Sub(p.readAt)).Before(p.room.StartsAt)
	unreachable := (errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrBreakerOpen)) &&
		!errors.Is(err, stockgate.ErrBroken) // has an alarm of its own
	if started && !unreachable && !p.stuck {
		p.stuck = true
		c.incidents.Add(ctx, 1)
		c.log.ErrorContext(ctx, "a waiting room admits no buyer", "activity_id", id, "since", p.failing, "error", err)
	} else if now.Sub(p.loggedAt) >= stuckLogInterval {
		c.log.WarnContext(ctx, "a waiting room does not move on", "activity_id", id, "since", p.failing, "error", err)
	} else {
		return
	}
	p.loggedAt = now
}

// rests reports whether an error means that the room has nothing to do now.
func rests(err error) bool {
	for _, of := range []error{ErrNone, core.ErrNoGate, ErrNotOpen, ErrEnded} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// list updates the set of rooms. After an error it stays as it is.
func (c *Controller) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids, err := c.List(ctx)
	if err != nil {
		return
	}
	rooms := make(map[string]*progress, len(ids))
	for _, id := range ids {
		p := c.rooms[id]
		if p == nil {
			p = &progress{}
		}
		rooms[id] = p
	}
	c.rooms = rooms
}

// step moves one room on: it opens and closes it by reading its state, stores the draw, and admits places.
func (c *Controller) step(ctx context.Context, id string, p *progress, fence int64) error {
	if err := c.read(ctx, id, p); err != nil {
		return err
	}
	if p.room.Closed && p.room.Root == nil {
		if err := c.storeRoot(ctx, id, p); err != nil {
			return err
		}
	}
	if p.room.Root != nil && p.room.Seed == nil {
		if err := c.storeSeed(ctx, id, p); err != nil {
			return err
		}
	}
	if !p.room.Closed || p.room.Now.Before(p.room.StartsAt) {
		return nil
	}
	return c.admit(ctx, id, p, fence)
}

func (c *Controller) read(ctx context.Context, id string, p *progress) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	known := p.room
	if !p.read {
		known = Room{Key: draw.NewHash()}
	}
	room, err := c.Rooms.Room(ctx, id, known)
	if err == nil {
		p.room, p.read, p.readAt = room, true, c.Now()
	}
	return err
}

// storeRoot computes the root over the early tickets and stores it.
func (c *Controller) storeRoot(ctx context.Context, id string, p *progress) error {
	ctx, cancel := context.WithTimeout(ctx, drawTimeout)
	defer cancel()
	began := c.Now()
	commitments, err := c.Rooms.Commitments(ctx, id, p.room.Early)
	if err != nil {
		return err
	}
	tree, err := draw.NewTree(commitments)
	if err != nil {
		return err
	}
	root, err := tree.Root()
	if err != nil {
		return err
	}
	room, err := c.Rooms.StoreDraw(ctx, id, root, nil, nil, p.room.Early)
	if err != nil {
		return err
	}
	p.room = room
	c.log.InfoContext(ctx, "root of a draw stored", "activity_id", id, "early_tickets", room.Early, "root", room.Root,
		"duration", c.Now().Sub(began))
	return nil
}

// storeSeed stores the seed with the beacon of the draw. Without one at the start, the draw has none: the sale is not to
// wait for another system.
func (c *Controller) storeSeed(ctx context.Context, id string, p *progress) error {
	r := p.room
	var beacon draw.Beacon
	if closed := r.StartsAt.Add(-closes); c.Beacon != nil && r.Early > 0 {
		at := closed.Add(beaconDelay)
		now := c.Now()
		if r.Now.Before(at) {
			return nil
		}
		if now.Sub(p.tried) < retryInterval {
			return p.beacon
		}
		p.tried, p.beacon = now, nil
		var err error
		if beacon, err = c.beacon(ctx, at); err != nil {
			if r.Now.Before(r.StartsAt) {
				if !errors.Is(err, errBeaconNotYet) {
					p.beacon = err
				}
				return p.beacon
			}
			c.log.WarnContext(ctx, "draw without a beacon: it was not readable until the start", "activity_id", id,
				"error", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	seed := draw.Seed(r.Key, *r.Root, beacon)
	room, err := c.Rooms.StoreDraw(ctx, id, *r.Root, &seed, beacon, r.Early)
	if err == nil {
		p.room = room
	}
	return err
}

func (c *Controller) beacon(ctx context.Context, at time.Time) (draw.Beacon, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.Beacon.After(ctx, at)
}

// admit raises the last admitted place by what the time since the last call allows. It also calls when nothing is to be
// admitted, because the script lets places lapse.
func (c *Controller) admit(ctx context.Context, id string, p *progress, fence int64) error {
	now := c.Now()
	if p.at.IsZero() {
		p.at = now.Add(-tickInterval)
	}
	elapsed := min(now.Sub(p.at), maxCredit)
	p.at = now
	to := p.room.Admitted
	if p.room.State == core.StateOpen {
		p.credit += c.pace.share() * float64(p.room.Rate) * elapsed.Seconds()
		whole := int64(p.credit)
		p.credit -= float64(whole)
		to = min(to+whole, p.room.Sequence)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	before := p.room.Admitted
	room, err := c.Rooms.Admit(ctx, id, fence, before, to)
	if err != nil {
		return err
	}
	p.room = room
	if n := room.Admitted - before; n > 0 {
		c.admitted.Add(ctx, n)
	}
	return nil
}
