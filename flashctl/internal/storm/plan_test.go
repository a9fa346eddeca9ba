package storm

import (
	"syscall"
	"testing"

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
