package draw

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHashHasOneText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Hash
		copy(h[:], rapid.SliceOfN(rapid.Byte(), HashBytes, HashBytes).Draw(t, "bytes"))
		parsed, err := ParseHash(h.String())
		require.NoError(t, err)
		require.Equal(t, h, parsed)
	})
	for _, text := range []string{"", "ab", KeyHash(Hash{}).String() + "0", "A" + Hash{}.String()[1:], "g" + Hash{}.String()[1:]} {
		_, err := ParseHash(text)
		require.Error(t, err, text)
	}
}

func TestCommitmentDependsOnEachOfItsParts(t *testing.T) {
	nonce := NewNonce()
	c := Commit("7", "u1", nonce)
	require.Equal(t, c, Commit("7", "u1", nonce))
	for _, other := range []Hash{
		Commit("8", "u1", nonce), Commit("7", "u2", nonce), Commit("7", "u1", NewNonce()), Commit("7u", "1", nonce),
	} {
		require.NotEqual(t, c, other)
	}
}
