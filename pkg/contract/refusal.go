package contract

import (
	"errors"
	"slices"
	"time"
)

// Code is the stable name of a refusal and part of the API.
type Code string

// The codes of the API. Package problem maps them to HTTP statuses.
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeForbidden            Code = "forbidden"
	CodePathInvalid          Code = "path_invalid"
	CodePathExpired          Code = "path_expired"
	CodeChallengeRequired    Code = "captcha_required"
	CodeChallengeWrong       Code = "captcha_wrong"
	CodeRoomRequired         Code = "room_required"
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeBodyTooLarge         Code = "body_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeActivityNotStarted   Code = "activity_not_started"
	CodeActivityEnded        Code = "activity_ended"
	CodeActivityPaused       Code = "activity_paused"
	CodeSoldOut              Code = "sold_out"
	CodeLimitReached         Code = "limit_reached"
	CodeInsufficientStock    Code = "insufficient_stock"
	CodeOrderNotPayable      Code = "order_not_payable"
	CodeStateConflict        Code = "state_conflict"
	CodeIdempotencyConflict  Code = "idempotency_conflict"
	CodeQuotaExceeded        Code = "quota_exceeded"
	CodeRateLimited          Code = "rate_limited"
	CodeRoomWaiting          Code = "room_waiting"
	CodeOverloaded           Code = "overloaded"
	CodeGateUnavailable      Code = "gate_unavailable"
	CodeJournalFull          Code = "journal_full"
	CodeProviderBusy         Code = "provider_busy"
	CodeUnavailable          Code = "unavailable"
	CodeInternal             Code = "internal"
)

// FieldError describes what is wrong with one field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Refusal is an error response as the caller sees it. Cause is for the log and never leaves the process.
type Refusal struct {
	Code       Code
	Detail     string
	Fields     []FieldError  // of invalid_request
	Members    []Member      // further members of the problem document
	RetryAfter time.Duration // of 429 and 503; 0 there means 1 s
	// Precondition of state_conflict: the condition of the request (If-Match) does not hold, so that the status is 412
	// and not 409.
	Precondition bool
	Cause        error
}

// Member is a further member of a problem document. Its name must not be that of a standard member, nor code, errors
// or trace_id.
type Member struct {
	Name  string // in JSON
	Value any
}

// Refuse returns a refusal with a sentence for the caller.
func Refuse(code Code, detail string) *Refusal { return &Refusal{Code: code, Detail: detail} }

// InvalidField returns a refusal of a request because of one of its fields.
func InvalidField(field, message string) *Refusal {
	return &Refusal{Code: CodeInvalidRequest, Detail: field + ": " + message, Fields: []FieldError{{field, message}}}
}

// With returns a copy with one more member. The refusal must not have a member of that name yet.
func (r *Refusal) With(name string, value any) *Refusal {
	c := *r
	c.Members = append(slices.Clip(r.Members), Member{name, value})
	return &c
}

// After returns a copy with the time after which the caller may retry.
func (r *Refusal) After(d time.Duration) *Refusal { c := *r; c.RetryAfter = d; return &c }

// FailedPrecondition returns a copy with Precondition set.
func (r *Refusal) FailedPrecondition() *Refusal { c := *r; c.Precondition = true; return &c }

// Because returns a copy with a cause.
func (r *Refusal) Because(err error) *Refusal { c := *r; c.Cause = err; return &c }

func (r *Refusal) Error() string {
	s := string(r.Code) + ": " + r.Detail
	if r.Cause != nil {
		s += ": " + r.Cause.Error()
	}
	return s
}

func (r *Refusal) Unwrap() error { return r.Cause }

// CodeOf returns the code of the first Refusal in err's chain, CodeInternal if there is none.
func CodeOf(err error) Code {
	if r := RefusalOf(err); r != nil {
		return r.Code
	}
	return CodeInternal
}

// RefusalOf returns the first Refusal in err's chain, nil if there is none.
func RefusalOf(err error) *Refusal {
	if r, ok := err.(*Refusal); ok { //nolint:errorlint // fast path: most refusals are not wrapped
		return r
	}
	var r *Refusal
	errors.As(err, &r)
	return r
}
