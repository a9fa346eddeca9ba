package draw

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testHash(t *rapid.T, name string) Hash {
	return Hash(rapid.SliceOfN(rapid.Byte(), HashBytes, HashBytes).Draw(t, name))
}

func TestEveryPlaceIsGivenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 3000).Draw(t, "n")
		p, err := NewPermutation(testHash(t, "seed"), n)
		require.NoError(t, err)
		taken := make([]bool, n+1)
		for s := int64(1); s <= n; s++ {
			place, err := p.Place(s)
			require.NoError(t, err)
			require.True(t, place >= 1 && place <= n, place)
			require.False(t, taken[place], "place %d is given twice", place)
			taken[place] = true
		}
	})
}

func TestPermutationRefusesWhatIsOutside(t *testing.T) {
	for _, n := range []int64{-1, 0, MaxTickets + 1} {
		_, err := NewPermutation(Hash{}, n)
		require.Error(t, err)
	}
	p, err := NewPermutation(Hash{}, MaxTickets)
	require.NoError(t, err)
	for _, s := range []int64{-1, 0, MaxTickets + 1} {
		_, err := p.Place(s)
		require.Error(t, err)
	}
	_, err = p.Place(MaxTickets)
	require.NoError(t, err)
}

func TestSeedDependsOnEachOfItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, root := testHash(t, "key"), testHash(t, "root")
		beacon := rapid.SliceOfN(rapid.Byte(), 0, MaxBeaconBytes).Draw(t, "beacon")
		seed := Seed(key, root, beacon)
		key[0]++
		require.NotEqual(t, seed, Seed(key, root, beacon))
		key[0]--
		root[31]++
		require.NotEqual(t, seed, Seed(key, root, beacon))
		root[31]--
		require.NotEqual(t, seed, Seed(key, root, append(beacon, 0)))
	})
}

// Places of 40,000 early tickets do not depend on the order of joining: among the tickets of each hundredth of the
// sequence, places are spread evenly. The key is fixed, so the result is, too.
func TestEarlyOrderDoesNotDecideThePlace(t *testing.T) {
	const n, cells = 40_000, 20
	p, err := NewPermutation(Seed(Hash{1}, Hash{2}, nil), n)
	require.NoError(t, err)
	var table [cells][cells]float64
	for s := int64(1); s <= n; s++ {
		place, err := p.Place(s)
		require.NoError(t, err)
		table[(s-1)*cells/n][(place-1)*cells/n]++
	}
	chi := 0.0
	expected := float64(n) / (cells * cells)
	for _, row := range table {
		for _, count := range row {
			chi += (count - expected) * (count - expected) / expected
		}
	}
	// (20 - 1)^2 = 361 degrees of freedom. These are the quantiles 0.001 and 0.999.
	require.Greater(t, chi, 281.0)
	require.Less(t, chi, 450.0)

	// In small draws each of the 6 orders of 3 tickets is about as frequent as any other, over keys.
	orders := map[[3]int64]float64{}
	const draws = 6000
	for i := range draws {
		p, err := NewPermutation(Seed(Hash{byte(i), byte(i >> 8)}, Hash{}, nil), 3)
		require.NoError(t, err)
		var order [3]int64
		for s := range order {
			order[s], err = p.Place(int64(s) + 1)
			require.NoError(t, err)
		}
		orders[order]++
	}
	require.Len(t, orders, 6)
	chi = 0
	for _, count := range orders {
		chi += (count - draws/6) * (count - draws/6) / (draws / 6)
	}
	require.Less(t, chi, 20.5) // 5 degrees of freedom, quantile 0.999
}

func BenchmarkPlace(b *testing.B) {
	p, err := NewPermutation(Hash{1}, 1_000_000)
	require.NoError(b, err)
	for i := range b.N {
		_, _ = p.Place(int64(i)%1_000_000 + 1)
	}
}
