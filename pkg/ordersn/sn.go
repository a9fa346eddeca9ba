// Package ordersn issues and parses order numbers.
//
// An order_sn is a positive 63-bit integer, written in decimal:
//
//	41 bits  milliseconds since 2025-01-01T00:00:00Z
//	 8 bits  worker that issued it
//	 6 bits  sequence within the millisecond
//	 8 bits  gene: FNV-1a 64 of the buyer's user id, lowest 8 bits
//
// The gene ties an order_sn to its buyer: one with another gene was issued to another buyer. Neither the bits nor the
// gene may ever change: stored order_sns would be refused.
package ordersn

import (
	"errors"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	geneBits     = 8
	sequenceBits = 6
	workerBits   = 8
	timeBits     = 41

	sequenceShift = geneBits
	workerShift   = sequenceShift + sequenceBits
	timeShift     = workerShift + workerBits

	// Workers is the number of generators that may issue at a time.
	Workers = 1 << workerBits
	// RedisWorkers is the number of worker ids that are leased in Redis: those below it. The others are leased by
	// inventory while Redis is unavailable.
	RedisWorkers = 224

	maxSequence = 1<<sequenceBits - 1
	maxTime     = 1<<timeBits - 1 // in the year 2094

	originMS = 1_735_689_600_000 // 2025-01-01T00:00:00Z
)

// SN is a parsed order_sn.
type SN struct {
	Time     time.Time // of issue, to the millisecond
	Worker   int
	Sequence int
	Gene     uint8
}

// Gene returns the gene of a user, which all order_sns of the user share: FNV-1a 64 of the id, lowest 8 bits.
func Gene(userID string) uint8 {
	h := uint64(14695981039346656037)
	for i := range len(userID) {
		h = (h ^ uint64(userID[i])) * 1099511628211
	}
	return uint8(h)
}

// Belongs reports whether an order_sn is well formed and carries the user's gene. One in 256 other users has the same
// gene, so true does not prove ownership; false proves that the order_sn was not issued to this user.
func Belongs(orderSN, userID string) bool {
	sn, err := Parse(orderSN)
	return err == nil && sn.Gene == Gene(userID)
}

var errMalformed = errors.New("order_sn is malformed")

// Parse parses an order_sn. Every positive 63-bit integer is valid.
func Parse(orderSN string) (SN, error) {
	if !contract.ValidID(orderSN) {
		return SN{}, errMalformed
	}
	n, err := strconv.ParseInt(orderSN, 10, 64)
	if err != nil {
		return SN{}, errMalformed
	}
	return SN{
		Time:     time.UnixMilli(n>>timeShift + originMS).UTC(),
		Worker:   int(n >> workerShift & (Workers - 1)),
		Sequence: int(n >> sequenceShift & maxSequence),
		Gene:     uint8(n),
	}, nil
}

// String returns the order_sn in decimal.
func (s SN) String() string {
	return strconv.FormatInt((s.Time.UnixMilli()-originMS)<<timeShift|
		int64(s.Worker)<<workerShift|int64(s.Sequence)<<sequenceShift|int64(s.Gene), 10)
}
