package stockgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"flashsale.internal/pkg/redisconn"
)

// Errors that callers distinguish with errors.Is. Every other error is a programming error in the caller or in a
// script.
var (
	// ErrNoGate means that this Redis has no such gate. Nothing was changed; the caller may retry later.
	ErrNoGate = errors.New("stockgate: no gate")
	// ErrUnavailable means that Redis did not reply, replied that it cannot serve now, or the breaker is open. The
	// outcome is unknown, and the same call may be repeated.
	ErrUnavailable = errors.New("stockgate: redis is unavailable")
	// ErrUnconfirmed is an ErrUnavailable: Redis replied, and too few replicas have what it has.
	ErrUnconfirmed = fmt.Errorf("%w: too few replicas have confirmed the write", ErrUnavailable)
	// ErrDenied is an ErrUnavailable: Redis refused the user, the password or a right of the user. That lasts until an
	// operator corrects it. A script that lacks a right for one of its commands may have written before.
	ErrDenied = fmt.Errorf("%w: it denies access", ErrUnavailable)
	// ErrBroken means that Redis rejected the command, usually because of the stored data, or the stored data cannot
	// be decoded. The same call fails again until the data is repaired.
	ErrBroken = errors.New("stockgate: stored data is unusable")
	// ErrStaleVersion means that the gate already has a later configuration.
	ErrStaleVersion = errors.New("stockgate: gate has a later version")
	// ErrInsufficient means that fewer units are left than the adjustment removes.
	ErrInsufficient = errors.New("stockgate: too few units left")
	// ErrDecided means that the withdrawal was decided before: the gate may still have the units that it removes.
	ErrDecided = errors.New("stockgate: the adjustment was decided before")
	// ErrGateExists means that the gate exists already, and a Build does not overwrite it.
	ErrGateExists = errors.New("stockgate: gate exists already")
	// ErrSuperseded means that the call refers to an outdated state of the gate. Build: another build of the gate
	// began, or Redis lost a part of this one. Repair and Correct: the gate was rebuilt or corrected since the caller
	// read it. CollectChanges: the tracking ended early.
	ErrSuperseded = errors.New("stockgate: superseded by a later change")
	// ErrUnknownSKU means that the gate does not sell this SKU.
	ErrUnknownSKU = errors.New("stockgate: unknown sku")
	// ErrAdjustmentConflict means that the id of the adjustment is known with another SKU or another quantity.
	ErrAdjustmentConflict = errors.New("stockgate: adjustment id is known with other content")
	// ErrNoSale means that this Redis has no sale of the activity.
	ErrNoSale = errors.New("stockgate: no sale")
)

// notServing lists the error codes by which Redis reports that it cannot serve now. The command itself is valid.
var notServing = []string{
	"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "MISCONF", "OOM", "BUSY",
	"MOVED", "ASK",
}

// classify maps an error of the Redis client or the breaker to the errors of this package.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests), unreachable(err),
		errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if redisconn.Denied(err) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	for _, code := range notServing {
		if strings.HasPrefix(err.Error(), code+" ") {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	if !refused(err) {
		return fmt.Errorf("stockgate: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// refused reports whether err is an error reply of Redis.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// hasReplies reports whether the result of each command of a pipeline may be used: the pipeline succeeded, or its error
// is that of some of its commands. A pipeline that got no connection may leave all commands without an error.
func hasReplies[C redis.Cmder](err error, commands []C) bool {
	return err == nil || slices.ContainsFunc(commands, func(c C) bool { return c.Err() != nil })
}

// wrongType reports whether the key holds a value of another Redis type than the command expects.
func wrongType(err error) bool { return refused(err) && strings.HasPrefix(err.Error(), "WRONGTYPE ") }

// unreachable reports whether Redis did not reply at all. Only that opens the breaker: error replies arrive fast.
func unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	return !refused(err)
}
