package e2e

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// spread is how long things took.
type spread struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *spread) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// String tells the values that a half, 9 of 10 and 99 of 100 do not exceed, and the largest.
func (s *spread) String() string {
	s.mu.Lock()
	all := slices.Sorted(slices.Values(s.all))
	s.mu.Unlock()
	if len(all) == 0 {
		return "none"
	}
	at := func(percent int) time.Duration {
		return all[max(0, (len(all)*percent+99)/100-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %s, p90 %s, p99 %s, max %s (of %d)", at(50), at(90), at(99), at(100), len(all))
}
