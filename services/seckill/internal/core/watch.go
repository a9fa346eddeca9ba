package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// How the watch reads. A level may be used for a decision while it is no older than flagAge; the loop reads those in use
// often enough that this holds while Redis answers.
const (
	flagAge   = 200 * time.Millisecond
	showAge   = time.Second // what a page may show
	lookEvery = 100 * time.Millisecond
	inUseFor  = 10 * time.Second // after the last question for it
	clockAge  = time.Second
	readBound = 3 * time.Second // of one read of the catalogue, whose calls are bounded by themselves
	maxViews  = 1024
)

// view is one activity as this process last read it. It is never changed, only replaced.
type view struct {
	Sale
	Level
	saleAt  time.Time // both before the read began
	levelAt time.Time
}

type slot struct {
	view    *view // nil while nothing was read
	usedAt  time.Time
	loading chan struct{} // closed when the read under way is done
	err     error         // of the last read
}

// Watch keeps what this process needs to know of the sales at hand: the window, what is left, and how far Redis time is
// from ours.
type Watch struct {
	cat Catalogue
	now func() time.Time

	mu       sync.Mutex
	slots    map[string]*slot
	list     []view
	listAt   time.Time
	listErr  error
	listing  chan struct{}
	offsetAt time.Time // when offset was read

	offset atomic.Pointer[time.Duration] // Redis time minus ours, nil while it is not known; each request asks for it
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

// look reads the levels in use, all in one round trip, and what is due of the rest.
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

	if clockDue {
		w.readClock(ctx)
	}
	if len(ids) == 0 {
		return
	}
	at := w.now()
	call, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	levels, err := w.cat.Levels(call, ids)
	for _, id := range ids {
		if _, ok := levels[id]; !ok && err != nil {
			continue // what is known grows old, and is not used then
		}
		w.refresh(call, id, levels, at)
	}
}

func (w *Watch) refresh(ctx context.Context, id string, levels map[string]Level, at time.Time) {
	level, ok := levels[id]
	w.mu.Lock()
	s := w.slots[id]
	switch {
	case s == nil:
		w.mu.Unlock()
		return
	case !ok:
		s.view = nil
		w.mu.Unlock()
		return
	}
	known := s.view
	w.mu.Unlock()

	v := view{Level: level, levelAt: at}
	if known != nil {
		v.Sale, v.saleAt = known.Sale, known.saleAt
	}
	if at.Sub(v.saleAt) >= showAge {
		sale, err := w.cat.Sale(ctx, id)
		switch {
		case err == nil:
			v.Sale, v.saleAt = sale, at
		case known == nil:
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// A reader may have been here meanwhile and know better.
	if s.view == nil || !s.view.levelAt.After(at) {
		s.view = &v
	}
}

// get answers the view of an activity whose level is no older than maxAge, reading it when there is none. Asking keeps
// the activity in use.
func (w *Watch) get(ctx context.Context, id string, maxAge time.Duration) (*view, error) {
	for shared := false; ; {
		w.mu.Lock()
		now := w.now()
		s := w.slots[id]
		if s != nil && s.view != nil {
			s.usedAt = now
			if v := s.view; now.Sub(v.levelAt) <= maxAge {
				w.mu.Unlock()
				return v, nil
			}
		}
		if s != nil && s.loading != nil {
			done := s.loading
			w.mu.Unlock()
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			// That read is recent enough for all who waited for it.
			w.mu.Lock()
			v, err := s.view, s.err
			w.mu.Unlock()
			if err == nil && v == nil {
				err = ErrNoGate
			}
			// One read that failed must not refuse all who waited for it, so each asks once more.
			if errors.Is(err, ErrUnavailable) && !shared {
				shared = true
				continue
			}
			return v, err
		}
		if s == nil {
			if len(w.slots) >= maxViews {
				w.mu.Unlock()
				return w.load(ctx, id)
			}
			s = &slot{}
			w.slots[id] = s
		}
		done := make(chan struct{})
		s.loading = done
		w.mu.Unlock()

		v, err := w.load(ctx, id)

		w.mu.Lock()
		s.loading, s.err = nil, err
		if err == nil {
			s.view, s.usedAt = v, w.now()
		} else if s.view == nil && s.usedAt.IsZero() {
			delete(w.slots, id) // anybody may ask for any id, so what does not exist is not kept
		}
		w.mu.Unlock()
		close(done)
		return v, err
	}
}

// load is detached from the caller, because others wait for what it reads.
func (w *Watch) load(ctx context.Context, id string) (*view, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBound)
	defer cancel()
	at := w.now()
	levels, err := w.cat.Levels(ctx, []string{id})
	level, ok := levels[id]
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrNoGate
	}
	sale, err := w.cat.Sale(ctx, id)
	if err != nil {
		return nil, err
	}
	return &view{Sale: sale, Level: level, saleAt: at, levelAt: at}, nil
}

// fresh answers the view only when it may decide something now, and keeps the activity in use.
func (w *Watch) fresh(id string) *view {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.slots[id]
	if s == nil {
		return nil
	}
	now := w.now()
	s.usedAt = now
	if s.view == nil || now.Sub(s.view.levelAt) > flagAge {
		return nil
	}
	return s.view
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

// sales lists all sales that are not over, at most showAge old.
func (w *Watch) sales(ctx context.Context) ([]view, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.listAt.IsZero() && w.now().Sub(w.listAt) <= showAge {
		return w.list, nil
	}
	done := w.listing
	if done == nil {
		done = make(chan struct{})
		w.listing = done
		w.mu.Unlock()
		at := w.now()
		list, err := w.loadSales(ctx, at)
		w.mu.Lock()
		w.listing, w.listErr = nil, err
		if err == nil {
			w.list, w.listAt = list, at
		}
		close(done)
		return list, err
	}
	w.mu.Unlock()
	select {
	case <-done:
		w.mu.Lock()
		return w.list, w.listErr
	case <-ctx.Done():
		w.mu.Lock()
		return nil, ctx.Err()
	}
}

func (w *Watch) loadSales(ctx context.Context, at time.Time) ([]view, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBound)
	defer cancel()
	ready, err := w.cat.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if !ready {
		return nil, errNotReady
	}
	sales, err := w.cat.Sales(ctx)
	if err != nil {
		return nil, err
	}
	now := w.clock(ctx)
	var ids []string
	for _, s := range sales {
		if now.Before(s.EndsAt) {
			ids = append(ids, s.ActivityID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	levels, err := w.cat.Levels(ctx, ids)
	if err != nil && len(levels) == 0 {
		return nil, err
	}
	var list []view // without the sales of which nobody can tell how they stand
	for _, s := range sales {
		if l, ok := levels[s.ActivityID]; ok {
			list = append(list, view{Sale: s, Level: l, saleAt: at, levelAt: at})
		}
	}
	return list, nil
}

var errNotReady = errors.New("this redis was not filled yet")

// clock is Redis time as well as it is known here. While Redis was never reached it is our own.
func (w *Watch) clock(ctx context.Context) time.Time {
	offset := w.offset.Load()
	if offset == nil {
		w.readClock(ctx)
		if offset = w.offset.Load(); offset == nil {
			return w.now()
		}
	}
	return w.now().Add(*offset)
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
	// The answer was true at some moment of the call; the middle is wrong by half of it at most.
	offset := there.Sub(before.Add(after.Sub(before) / 2))
	w.offset.Store(&offset)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offsetAt = after
}
