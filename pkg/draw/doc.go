// Package draw gives the early tickets of a waiting room their places by lot, so that any reader can verify the result.
//
// Every early ticket is a leaf of a Merkle tree (RFC 6962), in the order of the tickets' sequence numbers. The root and
// the count of leaves are published when early joining closes; from then on the set of tickets is fixed. The place of a
// ticket is a keyed permutation of its sequence number. The key is drawn before the first ticket, its SHA-256 is
// published at once, and the key itself at the start of the sale. So neither side can choose the order: the operator
// fixed the key before the tickets, and buyers learn it after them. A beacon, which is public randomness from after the
// closing, removes what an operator could gain by adding tickets of their own.
//
// The package decides nothing about time and stores nothing. docs/draw.md specifies all bytes, with a test vector and a
// verifier in another language.
package draw
