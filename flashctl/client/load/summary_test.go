package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSummary(t *testing.T) {
	require.Equal(t, "none", Summarize(nil).String())
	var all []time.Duration
	for _, i := range rand.Perm(1000) {
		all = append(all, time.Duration(i+1)*time.Millisecond)
	}
	s := Summarize(all)
	require.Equal(t, Summary{
		Count: 1000, P50: 500 * time.Millisecond, P90: 900 * time.Millisecond, P99: 990 * time.Millisecond,
		P999: 999 * time.Millisecond, Max: time.Second,
	}, s)
	require.Equal(t, "n=1000 p50=500ms p90=900ms p99=990ms p99.9=999ms max=1s", s.String())
}

func TestPercentileIsARecordedValueWithEnoughValuesBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "d"))
		}), 1, 50).Draw(t, "all")
		perMille := rapid.IntRange(1, 1000).Draw(t, "per mille")
		slices.Sort(all)
		p := percentile(all, perMille)
		require.Contains(t, all, p)
		below := 0
		for _, d := range all {
			if d <= p {
				below++
			}
		}
		require.GreaterOrEqual(t, below*1000, perMille*len(all))
	})
}
