package suspects

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
)

func byKey(s *Sketch) []stockgate.Suspect {
	list := s.Suspects()
	slices.SortFunc(list, func(a, b stockgate.Suspect) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func TestSketch(t *testing.T) {
	type add struct {
		key   string
		cause core.Cause
	}
	for name, c := range map[string]struct {
		adds []add
		want []stockgate.Suspect
	}{
		"nothing": {nil, []stockgate.Suspect{}},
		"exact while there is room": {
			[]add{{"a", core.Early}, {"b", core.RateLimited}, {"a", core.FailedChallenge}, {"a", core.VoidedPath}, {"a", core.Early}},
			[]stockgate.Suspect{{Key: "a", Early: 2, FailedChallenges: 1, VoidedPaths: 1}, {Key: "b", RateLimited: 1}},
		},
		"the least frequent key is replaced, and its count is the error": {
			[]add{{"a", core.Early}, {"a", core.Early}, {"a", core.Early}, {"b", core.Early}, {"b", core.Early}, {"c", core.VoidedPath}},
			[]stockgate.Suspect{{Key: "a", Early: 3}, {Key: "c", VoidedPaths: 1, Error: 2}},
		},
		"a key that returns begins anew": {
			[]add{{"a", core.Early}, {"a", core.Early}, {"a", core.Early}, {"b", core.Early}, {"c", core.Early}, {"b", core.RateLimited}},
			[]stockgate.Suspect{{Key: "a", Early: 3}, {Key: "b", RateLimited: 1, Error: 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSketch(2)
			for _, a := range c.adds {
				s.Add(a.key, a.cause)
			}
			require.Equal(t, c.want, byKey(s))
		})
	}
}

// A key with more requests than total/K is kept. Counts exceed the truth by at most the error, and the counts by cause
// never do.
func TestSketchKeepsWhatIsFrequent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 8).Draw(t, "capacity")
		keys := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 40)), 0, 300).Draw(t, "keys")
		s, truth, causes := NewSketch(capacity), map[string]int64{}, map[string]*[core.Causes]int64{}
		for i, n := range keys {
			key, cause := strconv.Itoa(n), core.Cause(i%int(core.Causes))
			s.Add(key, cause)
			truth[key]++
			if causes[key] == nil {
				causes[key] = &[core.Causes]int64{}
			}
			causes[key][cause]++
		}
		require.LessOrEqual(t, len(s.heap), capacity)
		require.Len(t, s.keys, len(s.heap))
		total := int64(len(keys))
		require.Equal(t, total, s.total)
		kept, sum := map[string]bool{}, int64(0)
		for i, e := range s.heap {
			require.Equal(t, i, e.place)
			require.Same(t, e, s.keys[e.key])
			if i > 0 {
				require.LessOrEqual(t, s.heap[(i-1)/2].count, e.count, "the heap is in order")
			}
			kept[e.key] = true
			sum += e.count
			require.LessOrEqual(t, e.error, total/int64(capacity))
			require.LessOrEqual(t, truth[e.key], e.count)
			require.LessOrEqual(t, e.count-e.error, truth[e.key])
			known := int64(0)
			for c, n := range e.by {
				known += n
				require.LessOrEqual(t, n, causes[e.key][c])
			}
			require.Equal(t, e.count, known+e.error)
		}
		require.Equal(t, total, sum)
		for key, n := range truth {
			if n > total/int64(capacity) {
				require.True(t, kept[key], "%s has %d of %d", key, n, total)
			}
		}
	})
}

func BenchmarkSketch(b *testing.B) {
	s, keys := NewSketch(keptKeys), make([]string, 4096)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Add(keys[i%len(keys)], core.RateLimited)
	}
}
