package core

import (
	"context"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// How the watch reads. A view may be used for a decision while it is no older than flagAge; the loop reads those in use
// often enough that this holds while Redis answers.
const (
	flagAge   = 200 * time.Millisecond
	showAge   = time.Second // what a page may show
	lookEvery = 100 * time.Millisecond
	inUseFor  = 10 * time.Second // after the last question for it
	clockAge  = time.Second
	readBound = time.Second // of one read of the catalogue
	maxViews  = 1024
	readers   = 4
)

// view is one activity as this process last read it. It is never changed, only replaced.
type view struct {
	sale Sale
	left map[string]int64
	at   time.Time // before the read began
}

// lacksAny tells whether nothing is left of one of these lines. A SKU that the view does not know is left to the gate.
func (v *view) lacksAny(lines []contract.Line) bool {
	for _, l := range lines {
		if left, ok := v.left[l.SKUID]; ok && left <= 0 {
			return true
		}
	}
	return false
}

// lacksAll tells whether nothing is left at all.
func (v *view) lacksAll() bool {
	for _, left := range v.left {
		if left > 0 {
			return false
		}
	}
	return len(v.left) > 0
}

type slot struct {
	view      *view
	usedAt    time.Time
	loading   chan struct{} // closed when the read under way is done
	err       error         // of the last read
	mayReturn time.Time     // what the gate last said with sold_out
}

// Watch keeps what this process needs to know of sales at hand: the window, what is left, and the offset to Redis time.
type Watch struct {
	cat Catalogue
	now func() time.Time

	mu       sync.Mutex
	slots    map[string]*slot
	list     []Sale
	listAt   time.Time
	listing  chan struct{}
	listErr  error
	offset   time.Duration // Redis time minus ours
	offsetAt time.Time     // zero while it is not known
}

// NewWatch starts nothing; without Run everything is read when it is asked for.
func NewWatch(cat Catalogue, now func() time.Time) *Watch {
	return &Watch{cat: cat, now: now, slots: map[string]*slot{}}
}

// Run keeps the activities in use fresh until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *Watch) look(ctx context.Context) {
	now := w.now()
	w.mu.Lock()
	var ids []string
	for id, s := range w.slots {
		switch {
		case now.Sub(s.usedAt) <= inUseFor:
			ids = append(ids, id)
		case s.loading == nil:
			delete(w.slots, id)
		}
	}
	clockDue := now.Sub(w.offsetAt) >= clockAge
	w.mu.Unlock()

	work := make(chan string)
	var wg sync.WaitGroup
	for range min(readers, len(ids)) {
		wg.Go(func() {
			for id := range work {
				w.read(ctx, id)
			}
		})
	}
	if clockDue {
		w.readClock(ctx)
	}
	for _, id := range ids {
		work <- id
	}
	close(work)
	wg.Wait()
}

// get answers the view of an activity that is no older than maxAge, reading it when there is none. keep tells that the
// activity is in use.
func (w *Watch) get(ctx context.Context, id string, maxAge time.Duration, keep bool) (*view, error) {
	for {
		w.mu.Lock()
		s := w.slots[id]
		now := w.now()
		if s != nil {
			if keep && s.view != nil {
				s.usedAt = now
			}
			if s.view != nil && now.Sub(s.view.at) <= maxAge {
				w.mu.Unlock()
				return s.view, nil
			}
			if s.loading != nil {
				done := s.loading
				w.mu.Unlock()
				select {
				case <-done:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				// The reader's answer is ours too: it began before we came at worst one read ago.
				w.mu.Lock()
				v, err := s.view, s.err
				w.mu.Unlock()
				if err != nil {
					return nil, err
				}
				if keep {
					w.use(id)
				}
				return v, nil
			}
		}
		w.mu.Unlock()
		if v, err, mine := w.read(ctx, id); mine {
			if err == nil && keep {
				w.use(id)
			}
			return v, err
		}
	}
}

// fresh answers the view only when it may decide something now, and marks the activity as in use.
func (w *Watch) fresh(id string) *view {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slots[id]
	if s == nil {
		return nil
	}
	now := w.now()
	s.usedAt = now
	if s.view == nil || now.Sub(s.view.at) > flagAge {
		return nil
	}
	return s.view
}

// use marks a known activity as in use.
func (w *Watch) use(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[id]; s != nil {
		s.usedAt = w.now()
	}
}

// learn has an activity watched that the gate has just shown to exist.
func (w *Watch) learn(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[id]; s != nil {
		s.usedAt = w.now()
	} else if len(w.slots) < maxViews {
		w.slots[id] = &slot{usedAt: w.now()}
	}
}

// read reads one activity unless somebody else is doing it; mine tells which.
func (w *Watch) read(ctx context.Context, id string) (v *view, err error, mine bool) {
	w.mu.Lock()
	s := w.slots[id]
	if s == nil {
		if len(w.slots) >= maxViews {
			w.mu.Unlock()
			v, err = w.load(ctx, id)
			return v, err, true
		}
		s = &slot{}
		w.slots[id] = s
	} else if s.loading != nil {
		w.mu.Unlock()
		return nil, nil, false
	}
	done := make(chan struct{})
	s.loading = done
	w.mu.Unlock()

	v, err = w.load(ctx, id)

	w.mu.Lock()
	s.loading, s.err = nil, err
	if err == nil {
		s.view = v
	}
	// What does not exist is not kept: anybody may ask for any id.
	if err != nil && s.view == nil && s.usedAt.IsZero() {
		delete(w.slots, id)
	}
	w.mu.Unlock()
	close(done)
	return v, err, true
}

// load is detached from the caller, because others wait for what it reads.
func (w *Watch) load(ctx context.Context, id string) (*view, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBound)
	defer cancel()
	at := w.now()
	sale, err := w.cat.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	left, err := w.cat.Left(ctx, id)
	if err != nil {
		return nil, err
	}
	return &view{sale: sale, left: left, at: at}, nil
}

// sales lists all sales, at most showAge old.
func (w *Watch) sales(ctx context.Context) ([]Sale, error) {
	w.mu.Lock()
	if w.listAt.IsZero() || w.now().Sub(w.listAt) > showAge {
		if done := w.listing; done != nil {
			w.mu.Unlock()
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			w.mu.Lock()
		} else {
			done := make(chan struct{})
			w.listing = done
			w.mu.Unlock()
			at := w.now()
			list, err := w.loadSales(ctx)
			w.mu.Lock()
			w.listing, w.listErr = nil, err
			if err == nil {
				w.list, w.listAt = list, at
			}
			close(done)
		}
		if w.listErr != nil {
			defer w.mu.Unlock()
			return nil, w.listErr
		}
	}
	defer w.mu.Unlock()
	return w.list, nil
}

func (w *Watch) loadSales(ctx context.Context) ([]Sale, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBound)
	defer cancel()
	ready, err := w.cat.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if !ready {
		return nil, ErrUnavailable
	}
	return w.cat.Sales(ctx)
}

// clock is Redis time as well as it is known here. While Redis was never reached it is our own.
func (w *Watch) clock(ctx context.Context) time.Time {
	w.mu.Lock()
	known := !w.offsetAt.IsZero()
	w.mu.Unlock()
	if !known {
		w.readClock(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now().Add(w.offset)
}

func (w *Watch) readClock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	before := w.now()
	there, err := w.cat.Now(ctx)
	if err != nil {
		return
	}
	after := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	// The answer was true at some moment of the call; the middle is wrong by half of it at most.
	w.offset = there.Sub(before.Add(after.Sub(before) / 2))
	w.offsetAt = after
}

// noteReturn remembers until when the gate saw unpaid pieces, for the answers that are given without it.
func (w *Watch) noteReturn(id string, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[id]; s != nil {
		s.mayReturn = until
	}
}

func (w *Watch) mayReturn(id string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.slots[id]; s != nil {
		return s.mayReturn
	}
	return time.Time{}
}
