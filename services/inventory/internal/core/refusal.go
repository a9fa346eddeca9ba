package core

import (
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// retryGateAfter is the pause that a refusal suggests when the gate cannot be reached.
const retryGateAfter = 2 * time.Second

// GateUnreachable turns the error of an unreachable gate into the refusal of a call that may have changed nothing yet.
// It returns other errors as they are.
func GateUnreachable(err error) error {
	if errors.Is(err, ErrImporting) {
		return contract.Refuse(contract.CodeGateUnavailable,
			"the sale is being imported after a restore; repeat the call").Because(err).After(retryGateAfter)
	}
	if errors.Is(err, ErrGateUnavailable) || errors.Is(err, ErrNoGate) {
		return contract.Refuse(contract.CodeGateUnavailable,
			"the gate cannot be reached; repeat the call").Because(err).After(retryGateAfter)
	}
	return err
}

// GateRefusal turns the error of an unreachable gate into the refusal of a call whose change is committed in the
// tables; the gate is synced later. It returns other errors as they are.
func GateRefusal(err error) error {
	if errors.Is(err, ErrGateUnavailable) || errors.Is(err, ErrNoGate) {
		return contract.Refuse(contract.CodeGateUnavailable,
			"the change is saved but not in the gate yet; repeat the call, or wait until the gate is synced").
			Because(err).After(retryGateAfter)
	}
	return err
}

// GateUnreadable turns the error of an unreachable gate into the refusal of a call that reads it. It returns other
// errors as they are.
func GateUnreadable(err error) error {
	if errors.Is(err, ErrGateUnavailable) || errors.Is(err, ErrNoGate) {
		return contract.Refuse(contract.CodeGateUnavailable,
			"the gate cannot be read right now; repeat the call").Because(err).After(retryGateAfter)
	}
	return err
}

// Unavailable returns the refusal of a call that may be repeated.
func Unavailable(detail string, err error) error {
	return contract.Refuse(contract.CodeUnavailable, detail).Because(err).After(retryGateAfter)
}

// NotFound returns the refusal of a call about an object that its scope does not contain.
func NotFound() *contract.Refusal { return contract.Refuse(contract.CodeNotFound, "no such resource") }
