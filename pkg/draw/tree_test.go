package draw

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// commitments returns n commitments of one activity.
func commitments(n int) []Hash {
	all := make([]Hash, n)
	for i := range all {
		all[i] = Commit("7", fmt.Sprintf("u%d", i+1), Nonce{byte(i), byte(i >> 8)})
	}
	return all
}

// rfc6962 is the tree hash as section 2.1 of the RFC defines it, by recursion.
func rfc6962(leaves [][]byte) Hash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, right := rfc6962(leaves[:k]), rfc6962(leaves[k:])
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

func TestRootIsThatOfTheRFC(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 257} {
		all := commitments(n)
		leaves := make([][]byte, n)
		for i, c := range all {
			leaves[i] = leaf(int64(i)+1, c)
		}
		tree, err := NewTree(all)
		require.NoError(t, err)
		root, err := tree.Root()
		require.NoError(t, err)
		require.Equal(t, rfc6962(leaves), root, n)
	}
}

func TestProofShowsOneTicketOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "tickets")
		all := commitments(n)
		tree, err := NewTree(all)
		require.NoError(t, err)
		root, err := tree.Root()
		require.NoError(t, err)
		count := int64(n)
		s := rapid.Int64Range(1, count).Draw(t, "sequence")
		proof, err := tree.Prove(s)
		require.NoError(t, err)
		require.NoError(t, CheckProof(root, count, s, all[s-1], proof))

		require.ErrorIs(t, CheckProof(root, count, s, Commit("7", "other", Nonce{}), proof), ErrProof)
		require.ErrorIs(t, CheckProof(KeyHash(root), count, s, all[s-1], proof), ErrProof)
		other := rapid.Int64Range(0, count+1).Draw(t, "other sequence")
		if other != s {
			require.ErrorIs(t, CheckProof(root, count, other, all[s-1], proof), ErrProof)
		}
		require.ErrorIs(t, CheckProof(root, count, s, all[s-1], append(proof, Hash{})), ErrProof)
		if len(proof) > 0 {
			i := rapid.IntRange(0, len(proof)-1).Draw(t, "altered")
			proof[i][0]++
			require.ErrorIs(t, CheckProof(root, count, s, all[s-1], proof), ErrProof)
		}
	})
}

func TestNoProofOutsideOfTheTree(t *testing.T) {
	tree, err := NewTree(commitments(3))
	require.NoError(t, err)
	for _, s := range []int64{-1, 0, 4} {
		_, err := tree.Prove(s)
		require.Error(t, err)
	}
}
