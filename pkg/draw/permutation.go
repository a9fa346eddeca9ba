package draw

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	rounds = 10
	// minHalfBits keeps the Feistel network above 2^8 values, because a smaller one permutes its values poorly.
	minHalfBits = 4
)

// Seed returns the seed of the permutation: HMAC-SHA256 with the key over the root and the beacon, which may be empty.
func Seed(key, root Hash, beacon []byte) Hash {
	mac := hmac.New(sha256.New, key[:])
	mac.Write(root[:])
	mac.Write(beacon)
	return Hash(mac.Sum(nil))
}

// Permutation assigns each of n sequence numbers another place from 1 to n. It is a Feistel network over the smallest
// even number of bits that holds n values, at least 8, applied until the result is in range (cycle walking).
type Permutation struct {
	seed Hash
	n    uint64
	half int // bits of one half
	mask uint64
}

// NewPermutation returns the permutation of n values under this seed; n is 1 to MaxTickets.
func NewPermutation(seed Hash, n int64) (Permutation, error) {
	if n < 1 || n > MaxTickets {
		return Permutation{}, fmt.Errorf("a permutation of %d values; 1 to %d are possible", n, MaxTickets)
	}
	half := max(minHalfBits, (bits.Len64(uint64(n-1))+1)/2)
	return Permutation{seed: seed, n: uint64(n), half: half, mask: 1<<half - 1}, nil
}

// Place returns the place of a sequence number. Both are 1 to n.
func (p Permutation) Place(sequence int64) (int64, error) {
	if sequence < 1 || uint64(sequence) > p.n {
		return 0, fmt.Errorf("ticket %d of %d", sequence, p.n)
	}
	// The walk ends: the network is a permutation, so it returns to the value that it began with, which is in range.
	x := p.encrypt(uint64(sequence - 1))
	for x >= p.n {
		x = p.encrypt(x)
	}
	return int64(x) + 1, nil
}

// encrypt applies all rounds once.
func (p Permutation) encrypt(x uint64) uint64 {
	var block [HashBytes + 1 + 8]byte
	copy(block[:], p.seed[:])
	left, right := x>>p.half, x&p.mask
	for round := range byte(rounds) {
		block[HashBytes] = round
		binary.BigEndian.PutUint64(block[HashBytes+1:], right)
		sum := sha256.Sum256(block[:])
		left, right = right, left^binary.BigEndian.Uint64(sum[:])&p.mask
	}
	return left<<p.half | right
}
