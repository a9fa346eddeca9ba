package ratelimit

import "errors"

var (
	// ErrLimited is what Reserve and Wait answer when the permits cannot be had within the wait that was offered.
	ErrLimited = errors.New("ratelimit: limited")
	// ErrCostExceedsBurst is what Reserve and Wait answer when more is asked for than can ever be had at once.
	ErrCostExceedsBurst = errors.New("ratelimit: cost exceeds what can be granted at once")
	// ErrUnavailable means that Redis could not be asked and the limiter is told to fail closed, or that what had to be
	// written (a reset, a refund) could not be.
	ErrUnavailable = errors.New("ratelimit: redis is not available")
	// ErrNoReservation is for algorithms that count what was and cannot promise what will be.
	ErrNoReservation = errors.New("ratelimit: this algorithm takes no reservations")
	// ErrQueueFull is what a bulkhead answers when too many wait already.
	ErrQueueFull = errors.New("ratelimit: too many are waiting")
	// ErrLeaseLost ends the context of a permit of a Redis bulkhead that could not be renewed in time.
	ErrLeaseLost = errors.New("ratelimit: the lease was lost")
)
