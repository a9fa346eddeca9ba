package priority

import (
	"math"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBuyersWait(t *testing.T) {
	var b buyers
	observe := func(n int64, delay time.Duration) bool {
		b.observe(100*time.Millisecond, n, delay)
		return b.wait
	}
	require.False(t, observe(500, 300*time.Microsecond), "a call's time")
	require.False(t, observe(500, waitingFrom-1))
	require.False(t, observe(0, time.Second), "no purchase")
	require.True(t, observe(1, waitingFrom))
	require.True(t, observe(500, calmBelow), "still above the lower bound")
	for range 4 {
		require.True(t, observe(500, 0))
	}
	require.True(t, observe(500, calmBelow), "the calm has to last")
	for range 4 {
		require.True(t, observe(0, time.Second))
	}
	require.False(t, observe(0, time.Second), "no buyer is left")
}

func TestPacerKeepsToARate(t *testing.T) {
	start := time.Unix(0, 0)
	var p pacer
	require.Zero(t, p.delay(start))
	p.take(start, 100, 1000, time.Second)
	require.Equal(t, 100*time.Millisecond, p.delay(start))
	require.Equal(t, 40*time.Millisecond, p.delay(start.Add(60*time.Millisecond)))
	p.take(start.Add(60*time.Millisecond), 100, 1000, time.Second)
	require.Equal(t, 140*time.Millisecond, p.delay(start.Add(60*time.Millisecond)), "both together")
	later := start.Add(time.Minute)
	require.Zero(t, p.delay(later))
	p.take(later, 100, 1000, time.Second)
	require.Equal(t, 100*time.Millisecond, p.delay(later), "the minute gives no credit")
	p.take(later, 1_000_000, 1000, time.Second)
	require.Equal(t, time.Second, p.delay(later), "the maximum")
	p.take(later.Add(time.Minute), 1, 0, time.Second)
	require.Equal(t, time.Second, p.delay(later.Add(time.Minute)), "no rate")
}

func TestMeanOfAHistogram(t *testing.T) {
	h := &metrics.Float64Histogram{
		Counts: []uint64{5, 10, 3, 1}, Buckets: []float64{math.Inf(-1), 0, 0.001, 0.01, math.Inf(1)},
	}
	require.Equal(t, 13*time.Millisecond/19, meanOf(h, nil))
	require.Equal(t, 10*time.Millisecond/2, meanOf(h, []uint64{5, 9, 3, 0}))
	require.Zero(t, meanOf(h, h.Counts))
}

func TestRunQueueIsMeasured(t *testing.T) {
	q := newRunQueue()
	require.NotEmpty(t, q.last, "this version of Go has the metric")
	require.GreaterOrEqual(t, q.mean(), time.Duration(0))
}
