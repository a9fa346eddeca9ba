package draw

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

const (
	// HashBytes is the length of a commitment, of a node of the tree, of a key and of a seed.
	HashBytes = sha256.Size
	// NonceBytes is the length of the random part of a ticket, which only its buyer and the system have.
	NonceBytes = 16

	commitmentDomain = "flashsale ticket v1\n"
)

// Hash is a SHA-256 or a random value of that length. Its text is hexadecimal, in lower case.
type Hash [HashBytes]byte

// Lost is the commitment of a ticket that the system has lost before the root was computed. Its leaf and its place remain.
var Lost Hash

// MarshalText returns 64 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText accepts exactly 64 hexadecimal digits in lower case.
func (h *Hash) UnmarshalText(text []byte) error {
	parsed, err := ParseHash(string(text))
	if err == nil {
		*h = parsed
	}
	return err
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash parses what String returns. Another spelling of the same value is an error.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) != 2*HashBytes {
		return h, fmt.Errorf("%d characters are no hash; it has %d", len(text), 2*HashBytes)
	}
	if _, err := hex.Decode(h[:], []byte(text)); err != nil {
		return Hash{}, fmt.Errorf("hash: %w", err)
	}
	if h.String() != text {
		return Hash{}, fmt.Errorf("hash %q has upper-case digits", text)
	}
	return h, nil
}

// NewHash returns a random value, for a key.
func NewHash() Hash {
	var h Hash
	_, _ = rand.Read(h[:]) // never fails
	return h
}

// Nonce is the random part of a ticket. It hides the buyer's user id in the published commitment.
type Nonce [NonceBytes]byte

// NewNonce returns a random nonce.
func NewNonce() Nonce {
	var n Nonce
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// Commit returns the commitment of a ticket: the published value that binds it to its user and activity. Neither id may
// contain a line feed; user ids and activity ids never do.
func Commit(activityID, userID string, nonce Nonce) Hash {
	b := make([]byte, 0, len(commitmentDomain)+len(activityID)+len(userID)+2+NonceBytes)
	b = append(b, commitmentDomain...)
	b = append(b, activityID...)
	b = append(b, '\n')
	b = append(b, userID...)
	b = append(b, '\n')
	b = append(b, nonce[:]...)
	return sha256.Sum256(b)
}

// leaf returns the bytes of the leaf of the ticket with this sequence number, which begins at 1.
func leaf(sequence int64, commitment Hash) []byte {
	b := make([]byte, 8, 8+HashBytes)
	binary.BigEndian.PutUint64(b, uint64(sequence))
	return append(b, commitment[:]...)
}
