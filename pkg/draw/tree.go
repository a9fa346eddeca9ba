package draw

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// MaxTickets bounds the early tickets of one draw, and so the memory of a tree: 64 bytes for each.
const MaxTickets = 1 << 26

// ErrProof is returned for an inclusion proof that does not show what it should.
var ErrProof = errors.New("the inclusion proof does not lead to the published root")

// Tree is the Merkle tree over the early tickets, in the order of their sequence numbers. It is safe for concurrent use
// once all tickets are added.
type Tree struct {
	hashes []tlog.Hash // in tlog's order of storage
	count  int64
}

// ReadHashes implements tlog.HashReader.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(t.hashes)) {
			return nil, fmt.Errorf("hash %d of %d", index, len(t.hashes))
		}
		hashes[i] = t.hashes[index]
	}
	return hashes, nil
}

// NewTree returns the tree of these commitments. The first one has sequence number 1.
func NewTree(commitments []Hash) (*Tree, error) {
	t := &Tree{hashes: make([]tlog.Hash, 0, 2*len(commitments))}
	for _, c := range commitments {
		if err := t.Add(c); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Add appends the ticket with the next sequence number.
func (t *Tree) Add(commitment Hash) error {
	if t.count == MaxTickets {
		return fmt.Errorf("a draw has at most %d tickets", MaxTickets)
	}
	hashes, err := tlog.StoredHashes(t.count, leaf(t.count+1, commitment), t)
	if err != nil {
		return fmt.Errorf("add ticket %d: %w", t.count+1, err)
	}
	t.hashes = append(t.hashes, hashes...)
	t.count++
	return nil
}

// Count returns the number of tickets.
func (t *Tree) Count() int64 { return t.count }

// Root returns the tree hash of RFC 6962; without a ticket it is the SHA-256 of nothing.
func (t *Tree) Root() (Hash, error) {
	root, err := tlog.TreeHash(t.count, t)
	if err != nil {
		return Hash{}, fmt.Errorf("root of %d tickets: %w", t.count, err)
	}
	return Hash(root), nil
}

// Prove returns the inclusion proof (RFC 6962, audit path) of a ticket.
func (t *Tree) Prove(sequence int64) ([]Hash, error) {
	if sequence < 1 || sequence > t.count {
		return nil, fmt.Errorf("ticket %d of %d", sequence, t.count)
	}
	proof, err := tlog.ProveRecord(t.count, sequence-1, t)
	if err != nil {
		return nil, fmt.Errorf("prove ticket %d: %w", sequence, err)
	}
	path := make([]Hash, len(proof))
	for i, h := range proof {
		path[i] = Hash(h)
	}
	return path, nil
}

// CheckProof returns nil if the proof shows that the tree with this root and count contains the commitment as the
// ticket with this sequence number, and ErrProof if not.
func CheckProof(root Hash, count, sequence int64, commitment Hash, proof []Hash) error {
	if sequence < 1 || sequence > count || count > MaxTickets {
		return ErrProof
	}
	path := make(tlog.RecordProof, len(proof))
	for i, h := range proof {
		path[i] = tlog.Hash(h)
	}
	hash := tlog.RecordHash(leaf(sequence, commitment))
	if tlog.CheckRecord(path, count, tlog.Hash(root), sequence-1, hash) != nil {
		return ErrProof
	}
	return nil
}
