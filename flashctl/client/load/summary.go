package load

import (
	"fmt"
	"slices"
	"time"
)

// Summary is the count, percentiles and maximum of durations.
type Summary struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Summarize returns the summary of durations; it sorts them in place.
func Summarize(all []time.Duration) Summary {
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

// percentile returns the smallest value of sorted such that at least perMille thousandths of the values do not exceed
// it.
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

// short rounds d to about three digits.
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
