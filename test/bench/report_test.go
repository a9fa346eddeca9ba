package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of 10 rounds, the second lowest and the second highest ratio enclose the median with a probability of 97.9 %.
func TestIntervals(t *testing.T) {
	var values []float64
	for n, want := range map[int][2]float64{6: {1, 6}, 9: {2, 8}, 10: {2, 9}, 20: {6, 15}} {
		values = nil
		for i := range n {
			values = append(values, float64(n-i))
		}
		low, high, ok := interval95(values)
		require.True(t, ok, n)
		require.Equal(t, want, [2]float64{low, high}, n)
	}
	for n := range 6 {
		_, _, ok := interval95(values[:n])
		require.False(t, ok, n)
	}
}

func TestFiguresOfBothSystemsArePaired(t *testing.T) {
	now, before := &bench{section: "inline"}, &bench{section: "inline"}
	for round := range 6 {
		host := float64(round + 1) // a shared host: both rates change together
		now.record("accepted", "1/s", higher, 200*host)
		before.record("accepted", "1/s", higher, 100*host)
		now.record("p99", "ms", lower, 30/host)
		before.record("p99", "ms", lower, 20/host)
		now.record("landed after", "s", none, 4)
		before.record("landed after", "s", none, 2)
	}
	now.record("only now", "", lower, 0.25)
	require.InDelta(t, 1200, now.figures.last("inline", "accepted"), 0)
	now.books.Wrong = []string{"activity 1: one is lost"}
	r := newReport(Config{Scale: 0.5})
	r.add([]*bench{now, before})
	require.Positive(t, r.Took)
	var out strings.Builder
	r.Markdown(&out)
	for _, want := range []string{
		"Durations and counts times 0.5",
		"| inline | accepted | 1/s | 700 | 200 to 1200 | 350 | 0.500 | 0.500 to 0.500 |\n",
		"| inline | p99 | ms | 8.75 | 5.00 to 30.0 | 5.83 | 1.500 | 1.500 to 1.500 |\n",
		"| inline | landed after | s | 4.00 | 4.00 to 4.00 | 2.00 | – | – |\n",
		"| inline | only now |  | 0.250 | – | – | – | – |\n",
		"WRONG: activity 1: one is lost",
		"The books of before: accepted 0",
	} {
		require.Contains(t, out.String(), want)
	}

	alone := newReport(Config{Scale: 1})
	alone.add([]*bench{before})
	alone.Tables = []Table{courseTable([]interval{{
		from: 10 * time.Second, accepted: 4000, landed: 1000, unavailable: 2, oldest: 3 * time.Second,
	}})}
	out.Reset()
	alone.Markdown(&out)
	require.Contains(t, out.String(), "| inline | accepted | 1/s | 350 | 100 to 600 |\n")
	require.Contains(t, out.String(), "| 10s | 4000 | 1000 | 2 | 3000 ms |\n")
	require.Contains(t, out.String(), "No purchase was lost")
	require.NotContains(t, out.String(), "Durations and counts")
}
