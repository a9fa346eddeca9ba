package core

import (
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
)

// retryGateAfter is the pause that a refusal suggests when the gate cannot be reached.
const retryGateAfter = 2 * time.Second

// gateUnreachable turns the error of an unreachable gate into the refusal of a call that may have changed nothing yet.
// It returns other errors as they are.
func gateUnreachable(err error) error {
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

// gateRefusal turns the error of an unreachable gate into the refusal of a call whose change is committed in the
// tables; the gate is synced later. It returns other errors as they are.
func gateRefusal(err error) error {
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

// activityRefusal is gateRefusal for a change of an activity. The refusal has the version that the change was saved as:
// the If-Match of a repeated call needs that one.
func activityRefusal(err error, a *Activity) error {
	var r *contract.Refusal
	if err = gateRefusal(err); errors.As(err, &r) && r.Code == contract.CodeGateUnavailable {
		return r.With("version", a.Version)
	}
	return err
}

// Unavailable returns the refusal of a call that may be repeated.
func Unavailable(detail string, err error) error {
	return contract.Refuse(contract.CodeUnavailable, detail).Because(err).After(retryGateAfter)
}

func notFound() *contract.Refusal { return contract.Refuse(contract.CodeNotFound, "no such resource") }
