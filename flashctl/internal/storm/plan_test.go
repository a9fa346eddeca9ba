package storm

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFileLimit(t *testing.T) {
	limit, err := raiseFileLimit()
	require.NoError(t, err)
	var now syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now))
	require.Equal(t, now.Max, now.Cur)
	require.Positive(t, limit)

	require.NoError(t, fits(19_936, 1, 20_000))
	require.EqualError(t, fits(19_937, 1, 20_000),
		"the hard limit of 20000 open files allows at most 19936 connections of 1 processes, not 19937")
	require.NoError(t, fits(39_872, 2, 20_000))
	require.ErrorContains(t, fits(39_873, 2, 20_000), "at most 39872 connections")
	require.ErrorContains(t, fits(1, 2, 10), "at most 0 connections")
}

// Every token and every held connection belongs to one part, and no part needs more connections than its share.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, MaxProcesses).Draw(t, "processes")
		p := Plan{
			Tokens: rapid.SliceOfNDistinct(rapid.String(), 0, 50, rapid.ID[string]).Draw(t, "tokens"),
			Slow:   rapid.IntRange(0, 100).Draw(t, "slow"), HalfOpen: rapid.IntRange(0, 100).Draw(t, "half-open"),
		}
		var tokens []string
		slow, halfOpen := 0, 0
		for _, part := range p.split(n) {
			require.LessOrEqual(t, part.Connections(), p.Connections()/n+3)
			tokens = append(tokens, part.Tokens...)
			slow += part.Slow
			halfOpen += part.HalfOpen
		}
		require.ElementsMatch(t, p.Tokens, tokens)
		require.Equal(t, p.Slow, slow)
		require.Equal(t, p.HalfOpen, halfOpen)
	})
}

func TestSamplesAddUp(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	all := newSample()
	all.add(newSample())
	all.add(Sample{
		Begun: 1, First: at.Add(time.Second), Last: at.Add(time.Second), Outcomes: map[string]int{"201": 1},
		Took: []time.Duration{3 * time.Second}, Handshakes: 1, Resumed: 1, Slow: Held{Begun: 2, Failed: 1, StillOpen: 1},
	})
	all.add(Sample{
		Begun: 3, First: at, Last: at.Add(900 * time.Millisecond), Outcomes: map[string]int{"201": 1, "429 rate_limited": 1},
		Errors: map[string]int{"connect: refused": 1}, Examples: map[string]string{"connect: refused": "an example"},
		Took: []time.Duration{time.Second, 2 * time.Second}, Handshakes: 2,
		Slow: Held{Begun: 1, Ended: []time.Duration{time.Second}},
	})
	r := all.report()
	require.Equal(t, 4, r.Begun)
	require.Equal(t, time.Second, r.BegunWithin)
	require.Equal(t, map[string]int{"201": 2, "429 rate_limited": 1}, r.Outcomes)
	require.Equal(t, map[string]int{"connect: refused": 1}, r.Errors)
	require.Equal(t, "an example", r.Examples["connect: refused"])
	require.Equal(t, 2*time.Second, r.Response.P50)
	require.Equal(t, 3*time.Second, r.Response.Max)
	require.Equal(t, 3, r.Handshakes)
	require.Equal(t, 1, r.Resumed)
	require.Equal(t, 3, r.Slow.Begun)
	require.Equal(t, 1, r.Slow.Failed)
	require.Equal(t, 1, r.Slow.StillOpen)
	require.Equal(t, 1, r.Slow.Ended.Count)
}
