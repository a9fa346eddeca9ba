package core

import "flashsale.internal/pkg/contract"

// Cause is why a request was refused, if many such requests make a caller suspicious.
type Cause int

// The causes, and their number.
const (
	Early           Cause = iota // before the start of the sale
	RateLimited                  // by a limit
	FailedChallenge              // a wrong answer to a challenge
	VoidedPath                   // a purchase with a path that is invalid or void
	Causes
)

// CauseOf returns the cause that the refusal of a path, challenge or purchase request counts for. ok is false for
// refusals that do not count against the caller, as that of a sold-out sale.
func CauseOf(code contract.Code) (c Cause, ok bool) {
	switch code {
	case contract.CodeActivityNotStarted:
		return Early, true
	case contract.CodeRateLimited:
		return RateLimited, true
	case contract.CodeChallengeWrong:
		return FailedChallenge, true
	case contract.CodePathExpired, contract.CodePathInvalid:
		return VoidedPath, true
	}
	return 0, false
}
