package ratelimit

import "errors"

var (
	// ErrLimited is returned by Reserve and Wait if the permits are not available within the offered wait.
	ErrLimited = errors.New("ratelimit: limited")
	// ErrCostExceedsBurst is returned by Reserve and Wait for a cost that can never be granted at once.
	ErrCostExceedsBurst = errors.New("ratelimit: cost exceeds what can be granted at once")
	// ErrUnavailable is returned if Redis is unreachable and the limiter fails closed, and if a reset or refund could
	// not be written.
	ErrUnavailable = errors.New("ratelimit: redis is unavailable")
	// ErrNoReservation is returned for algorithms that count the past and cannot reserve future permits.
	ErrNoReservation = errors.New("ratelimit: this algorithm takes no reservations")
	// ErrQueueFull is returned by a bulkhead whose queue is full.
	ErrQueueFull = errors.New("ratelimit: the queue is full")
)
