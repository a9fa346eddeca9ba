package stockgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Errors that callers tell apart with errors.Is. Every other error is a mistake of the caller or of a script.
var (
	// ErrNoGate: this Redis has no such gate. Nothing was changed; the caller tries again later.
	ErrNoGate = errors.New("stockgate: no gate")
	// ErrUnavailable: Redis did not answer, answered that it cannot serve, or the breaker is open. The outcome is
	// unknown, and the same call may be made again.
	ErrUnavailable = errors.New("stockgate: redis is unavailable")
	// ErrBroken: Redis cannot do this with what is stored, or what is stored cannot be read. The same call will be answered
	// so again until the damage is mended.
	ErrBroken = errors.New("stockgate: what is stored cannot be used")
	// ErrStaleVersion: the gate already has a later configuration.
	ErrStaleVersion = errors.New("stockgate: gate has a later version")
	// ErrInsufficient: fewer pieces are left than the adjustment takes.
	ErrInsufficient = errors.New("stockgate: not so many pieces left")
	// ErrGateExists: there is a gate already, and Preload does not overwrite it.
	ErrGateExists = errors.New("stockgate: gate exists already")
	// ErrSuperseded: another build of the same gate began meanwhile, or Redis lost a part of this one; or a repair meets a
	// gate that was built anew or corrected since it was looked at.
	ErrSuperseded = errors.New("stockgate: build was superseded")
	// ErrUnknownSKU: the gate does not sell this SKU.
	ErrUnknownSKU = errors.New("stockgate: unknown sku")
	// ErrAdjustmentConflict: the adjustment's id is known with another SKU or another number of pieces.
	ErrAdjustmentConflict = errors.New("stockgate: adjustment id is known with other content")
	// ErrNoSale: no sale of this activity was put here.
	ErrNoSale = errors.New("stockgate: no sale")
)

// notServing are the codes of Redis replies that mean "not now" instead of "not so".
var notServing = []string{"LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "MISCONF", "OOM", "BUSY"}

// classify maps what the client returned to the errors of this package.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests), unreachable(err),
		errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
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

// refused tells whether Redis answered, and answered with an error.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// byCommand tells whether the answers of a pipeline may be taken one by one: it went through, or its error is that of some of
// its commands. One that got no connection may leave all of them without an error.
func byCommand[C redis.Cmder](err error, commands []C) bool {
	return err == nil || slices.ContainsFunc(commands, func(c C) bool { return c.Err() != nil })
}

// wrongType tells whether something else is stored under the key than what belongs there.
func wrongType(err error) bool { return refused(err) && strings.HasPrefix(err.Error(), "WRONGTYPE ") }

// unreachable tells whether Redis gave no answer at all. Only that opens the breaker: a Redis that refuses answers fast.
func unreachable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	return !refused(err)
}
