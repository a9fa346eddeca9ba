// Package latency sums up how long things took.
package latency

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Recorder collects durations; many goroutines may add at once. It keeps each one, 8 bytes, so percentiles are exact.
type Recorder struct {
	mu  sync.Mutex
	all []time.Duration
}

// Add records one duration.
func (r *Recorder) Add(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

// Summary is what a Recorder has seen.
type Summary struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Sum sums up what was recorded so far.
func (r *Recorder) Sum() Summary {
	r.mu.Lock()
	all := slices.Clone(r.all)
	r.mu.Unlock()
	return Of(all)
}

// Of sums up durations; it sorts them.
func Of(all []time.Duration) Summary {
	if len(all) == 0 {
		return Summary{}
	}
	slices.Sort(all)
	return Summary{
		Count: len(all),
		P50:   percentile(all, 500),
		P90:   percentile(all, 900),
		P99:   percentile(all, 990),
		P999:  percentile(all, 999),
		Max:   all[len(all)-1],
	}
}

// percentile is the smallest recorded value that at least perMille thousandths of all values do not exceed.
func percentile(sorted []time.Duration, perMille int) time.Duration {
	rank := (len(sorted)*perMille + 999) / 1000
	return sorted[max(rank, 1)-1]
}

func (s Summary) String() string {
	if s.Count == 0 {
		return "none"
	}
	return fmt.Sprintf("n=%d p50=%s p90=%s p99=%s p99.9=%s max=%s",
		s.Count, short(s.P50), short(s.P90), short(s.P99), short(s.P999), short(s.Max))
}

// short keeps three digits or so.
func short(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
