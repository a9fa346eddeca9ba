package shop

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// durations collects measured times of one kind. It is safe for concurrent use.
type durations struct {
	mu  sync.Mutex
	all []time.Duration
}

func (s *durations) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

// String returns the 50th, 90th and 99th percentile and the maximum.
func (s *durations) String() string {
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
