package suspects

import (
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
)

// entry holds the counts of one key.
type entry struct {
	key   string
	count int64              // at least the number of requests of this key
	error int64              // the part of count that may be requests of other keys, from before this key was kept
	by    [core.Causes]int64 // requests that were counted for this key; with error they add up to count
	place int                // in the heap
}

// Sketch counts requests by key and keeps the most frequent keys in bounded memory. It is the Space-Saving algorithm of
// Metwally, Agrawal and El Abbadi: Efficient computation of frequent and top-k elements in data streams (ICDT 2005).
//
// With capacity K and N requests, a key with more than N/K requests is always kept. The count of a kept key exceeds the
// number of its requests by at most its error, which is at most N/K. The counts by cause are lower bounds. Add takes
// O(log K).
type Sketch struct {
	capacity int
	total    int64
	keys     map[string]*entry
	heap     []*entry // the least count first
}

// NewSketch returns a sketch that keeps so many keys.
func NewSketch(capacity int) *Sketch { return &Sketch{capacity: capacity, keys: map[string]*entry{}} }

// Add counts a request.
func (s *Sketch) Add(key string, c core.Cause) {
	s.total++
	e := s.keys[key]
	switch {
	case e != nil:
	case len(s.heap) < s.capacity:
		e = &entry{key: key, place: len(s.heap)}
		s.keys[key] = e
		s.heap = append(s.heap, e)
		s.up(e)
	default: // the key with the least count is replaced
		e = s.heap[0]
		delete(s.keys, e.key)
		e.key, e.error, e.by = key, e.count, [core.Causes]int64{}
		s.keys[key] = e
	}
	e.count++
	e.by[c]++
	s.down(e)
}

// up moves an entry towards the root while its parent has a higher count.
func (s *Sketch) up(e *entry) {
	for e.place > 0 {
		parent := s.heap[(e.place-1)/2]
		if parent.count <= e.count {
			return
		}
		s.swap(parent, e)
	}
}

// down moves an entry down from the root while a child has a lower count.
func (s *Sketch) down(e *entry) {
	for {
		least := e
		for child := 2*e.place + 1; child <= 2*e.place+2 && child < len(s.heap); child++ {
			if s.heap[child].count < least.count {
				least = s.heap[child]
			}
		}
		if least == e {
			return
		}
		s.swap(e, least)
	}
}

func (s *Sketch) swap(a, b *entry) {
	s.heap[a.place], s.heap[b.place] = b, a
	a.place, b.place = b.place, a.place
}

// Suspects returns the kept keys, in no order.
func (s *Sketch) Suspects() []stockgate.Suspect {
	list := make([]stockgate.Suspect, len(s.heap))
	for i, e := range s.heap {
		list[i] = stockgate.Suspect{
			Key: e.key, Early: e.by[core.Early], RateLimited: e.by[core.RateLimited],
			FailedChallenges: e.by[core.FailedChallenge], VoidedPaths: e.by[core.VoidedPath], Error: e.error,
		}
	}
	return list
}
