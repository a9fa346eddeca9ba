package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"flashsale.internal/flashctl/client/load"
)

// arrivals makes users arrive at times that are fixed from the start. Each fetches a path, repeats the call after a 429
// or 503, and buys with the path over the same connection.
type arrivals struct {
	Addr  string // host:port
	Conns int    // connections; a user whose call is due waits for a free one
	Users int
	For   time.Duration // in which all users arrive
	// Early is the share of the users that arrive in the first EarlyFor, evenly; the others arrive evenly afterwards.
	Early    float64
	EarlyFor time.Duration
	// Path appends the path request of a user, Purchase the purchase with the path.
	Path     func(user int, buf []byte) []byte
	Purchase func(user int, path string, buf []byte) []byte
	// Accepted records an accepted purchase.
	Accepted func(orderSN string)
	// Slot is the length of a part of the result.
	Slot time.Duration
	// Begin is called when a part begins, with its number.
	Begin func(slot int)
}

// arrivalsResult is the result of arrivals.
type arrivalsResult struct {
	Took     time.Duration  // until the last user had a final response
	Slots    []arrivalsSlot // by the time of the response
	Accepted int
	SoldOut  int
	GivenUp  int // users without a final response, or with an unexpected one
	Example  string
}

// arrivalsSlot counts the calls of one part of the time.
type arrivalsSlot struct {
	Arrived     int
	Paths       int // issued
	Refused     int // responses 429 to path requests
	Unavailable int // responses 503
	Broken      int // calls without a response
	Accepted    int
	// Path is the time from the call that issued a path to its response, Purchase that of an accepted purchase. Waited
	// is the time from the user's arrival to the path, with all repetitions.
	Path     load.Summary
	Purchase load.Summary
	Waited   load.Summary

	paths, purchases, waits []time.Duration
}

const (
	// maxRepeatPause bounds the pause before a user repeats a refused call, which doubles with each repetition but is
	// never shorter than Retry-After.
	maxRepeatPause = 30 * time.Second
	maxAttempts    = 30 // of a purchase
	// maxRepeats is the number of repetitions after which a user gives up.
	maxRepeats = 1000
)

// at returns the time of a user's arrival, since the start.
func (a *arrivals) at(user int) time.Duration {
	early := int(a.Early * float64(a.Users))
	if user < early {
		return time.Duration(float64(a.EarlyFor) * float64(user) / float64(early))
	}
	return a.EarlyFor + time.Duration(float64(a.For-a.EarlyFor)*float64(user-early)/float64(a.Users-early))
}

// visit is a user's next call.
type visit struct {
	user    int
	arrived time.Time
	due     time.Time
	repeats int
}

// visits is a heap of visits, the next one first.
type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].due.Before(v[j].due) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	old := *v
	last := old[len(old)-1]
	*v = old[:len(old)-1]
	return last
}

// Run makes the users arrive and waits until each has a final response.
func (a *arrivals) Run(ctx context.Context) (arrivalsResult, error) {
	if a.Users < 2 || a.Conns < 1 || a.For <= a.EarlyFor || a.EarlyFor <= 0 || a.Slot <= 0 || a.Early <= 0 || a.Early >= 1 {
		return arrivalsResult{}, fmt.Errorf("%d users within %s over %d connections, %g of them within %s",
			a.Users, a.For, a.Conns, a.Early, a.EarlyFor)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	r := &arrivalsRun{arrivals: a, due: make(chan visit), repeats: make(chan visit), began: time.Now()}
	visitors := make([]*visitor, a.Conns)
	var wg sync.WaitGroup
	for i := range visitors {
		visitors[i] = &visitor{Conn: load.NewConn(a.Addr), run: r}
		defer visitors[i].Close()
		wg.Go(func() { visitors[i].work(ctx) })
	}
	err := r.schedule(ctx)
	close(r.due)
	wg.Wait()
	return r.sum(visitors), err
}

// arrivalsRun is the state that the connections of arrivals share.
type arrivalsRun struct {
	*arrivals
	began   time.Time
	due     chan visit // to a free connection
	repeats chan visit // from a connection; a visit without a due time has ended
	arrived []int      // by slot
}

// schedule hands out visits when they are due, until every user has a final response.
func (r *arrivalsRun) schedule(ctx context.Context) error {
	var waiting visits
	next, open, slot := 0, r.Users, -1
	timer := time.NewTimer(0)
	defer timer.Stop()
	for open > 0 {
		now := time.Now()
		for next < r.Users && r.at(next) <= now.Sub(r.began) {
			at := r.began.Add(r.at(next))
			heap.Push(&waiting, visit{user: next, arrived: at, due: at})
			r.arrived = countIn(r.arrived, int(r.at(next)/r.Slot))
			next++
		}
		for current := int(now.Sub(r.began) / r.Slot); slot < current; {
			slot++
			if r.Begin != nil {
				r.Begin(slot)
			}
		}
		var out chan<- visit
		var first visit
		wake := r.began.Add(time.Duration(slot+1) * r.Slot)
		if next < r.Users {
			wake = earlier(wake, r.began.Add(r.at(next)))
		}
		if len(waiting) > 0 {
			if first = waiting[0]; first.due.After(now) {
				wake = earlier(wake, first.due)
			} else {
				out = r.due
			}
		}
		timer.Reset(time.Until(wake))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case out <- first:
			heap.Pop(&waiting)
		case v := <-r.repeats:
			if v.due.IsZero() {
				open--
			} else {
				heap.Push(&waiting, v)
			}
		}
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// countIn adds one to element i, and the elements up to it.
func countIn(counts []int, i int) []int {
	for len(counts) <= i {
		counts = append(counts, 0)
	}
	counts[i]++
	return counts
}

// visitor makes calls over one connection.
type visitor struct {
	*load.Conn
	run     *arrivalsRun
	buf     []byte
	slots   []arrivalsSlot
	out     arrivalsResult
	example string
}

func (c *visitor) work(ctx context.Context) {
	for v := range c.run.due {
		v = c.visit(ctx, v)
		select {
		case <-ctx.Done():
			return
		case c.run.repeats <- v:
		}
	}
}

// slot returns the part of the present time.
func (c *visitor) slot() *arrivalsSlot {
	i := int(time.Since(c.run.began) / c.run.Slot)
	for len(c.slots) <= i {
		c.slots = append(c.slots, arrivalsSlot{})
	}
	return &c.slots[i]
}

// visit makes the calls of a user. It returns the next visit of the user, without a due time if there is none.
func (c *visitor) visit(ctx context.Context, v visit) visit {
	c.buf = c.run.Path(v.user, c.buf[:0])
	r, err := c.Exchange(ctx, c.buf)
	slot := c.slot()
	switch {
	case err != nil:
		slot.Broken++
		return c.repeat(v, 0, err.Error())
	case r.Status == 429:
		slot.Refused++
		return c.repeat(v, retryAfter(&r), "")
	case r.Status == 503:
		slot.Unavailable++
		return c.repeat(v, retryAfter(&r), "")
	case r.Status == 409:
		c.out.SoldOut++
		return visit{user: v.user}
	case r.Status != 201:
		return c.giveUp(v, "path: "+unexpected(&r))
	}
	slot.Paths++
	slot.paths = append(slot.paths, r.Took)
	slot.waits = append(slot.waits, time.Since(v.arrived))
	return c.buy(ctx, v, r.Member("path"), r.Member("order_sn"))
}

// buy makes the purchase of a user until it has a final response. A repeated purchase is the same one.
func (c *visitor) buy(ctx context.Context, v visit, path, orderSN string) visit {
	c.buf = c.run.Purchase(v.user, path, c.buf[:0])
	pause := 20 * time.Millisecond
	for attempt := 1; ; attempt++ {
		r, err := c.Exchange(ctx, c.buf)
		slot := c.slot()
		switch {
		case err != nil:
			slot.Broken++
		case r.Status == 503:
			slot.Unavailable++
		case r.Status == 202:
			slot.Accepted++
			slot.purchases = append(slot.purchases, r.Took)
			c.out.Accepted++
			c.run.Accepted(orderSN)
			return visit{user: v.user}
		case r.Status == 409:
			c.out.SoldOut++
			return visit{user: v.user}
		default:
			return c.giveUp(v, "purchase: "+unexpected(&r))
		}
		if attempt == maxAttempts || ctx.Err() != nil {
			return c.giveUp(v, fmt.Sprintf("no response to a purchase: %v", errors.Join(err, ctx.Err())))
		}
		_ = load.Until(ctx, time.Now().Add(pause))
		pause = min(2*pause, time.Second)
	}
}

// repeat returns the next visit of a user after a call that must be repeated.
func (c *visitor) repeat(v visit, after time.Duration, why string) visit {
	if why != "" && c.example == "" {
		c.example = why
	}
	if v.repeats++; v.repeats > maxRepeats {
		return c.giveUp(v, "refused too often")
	}
	pause := min(time.Second<<min(v.repeats-1, 10), maxRepeatPause)
	// Half a pause at most is added, so that users who were refused together do not return together.
	pause = max(pause, after) + time.Duration(v.user%100)*pause/200
	v.due = time.Now().Add(pause)
	return v
}

func (c *visitor) giveUp(v visit, why string) visit {
	c.out.GivenUp++
	if c.example == "" {
		c.example = why
	}
	return visit{user: v.user}
}

// retryAfter returns the Retry-After of a response, 0 if it has none.
func retryAfter(r *load.Response) time.Duration {
	n, err := strconv.Atoi(r.Field("Retry-After"))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// sum adds up what the connections recorded.
func (r *arrivalsRun) sum(visitors []*visitor) arrivalsResult {
	out := arrivalsResult{Took: time.Since(r.began)}
	slot := func(i int) *arrivalsSlot {
		for len(out.Slots) <= i {
			out.Slots = append(out.Slots, arrivalsSlot{})
		}
		return &out.Slots[i]
	}
	for i, n := range r.arrived {
		slot(i).Arrived = n
	}
	for _, c := range visitors {
		out.Accepted, out.SoldOut = out.Accepted+c.out.Accepted, out.SoldOut+c.out.SoldOut
		out.GivenUp += c.out.GivenUp
		if out.Example == "" {
			out.Example = c.example
		}
		for i, s := range c.slots {
			to := slot(i)
			to.Paths, to.Refused, to.Unavailable = to.Paths+s.Paths, to.Refused+s.Refused, to.Unavailable+s.Unavailable
			to.Broken, to.Accepted = to.Broken+s.Broken, to.Accepted+s.Accepted
			to.paths, to.purchases = append(to.paths, s.paths...), append(to.purchases, s.purchases...)
			to.waits = append(to.waits, s.waits...)
		}
	}
	for i := range out.Slots {
		s := &out.Slots[i]
		s.Path, s.Purchase, s.Waited = load.Summarize(s.paths), load.Summarize(s.purchases), load.Summarize(s.waits)
	}
	return out
}
