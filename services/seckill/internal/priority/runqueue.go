package priority

import (
	"math"
	"runtime/metrics"
	"time"
)

// runQueue measures how long the goroutines of this process wait for a processor.
type runQueue struct {
	sample []metrics.Sample
	last   []uint64
}

func newRunQueue() *runQueue {
	q := &runQueue{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	q.mean()
	return q
}

// mean returns the mean time from the moment when a goroutine can run until it runs, since the call before.
func (q *runQueue) mean() time.Duration {
	metrics.Read(q.sample)
	if q.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := q.sample[0].Value.Float64Histogram()
	mean := meanOf(h, q.last)
	q.last = append(q.last[:0], h.Counts...)
	return mean
}

// meanOf returns the mean of what a histogram of seconds has counted since its counts were last. Each value counts as
// the lower bound of its bucket.
func meanOf(h *metrics.Float64Histogram, last []uint64) time.Duration {
	n, sum := uint64(0), 0.0
	for i, count := range h.Counts {
		if i < len(last) {
			count -= last[i]
		}
		n += count
		if lower := h.Buckets[i]; !math.IsInf(lower, 0) {
			sum += float64(count) * lower
		}
	}
	if n == 0 {
		return 0
	}
	return time.Duration(sum / float64(n) * float64(time.Second))
}
