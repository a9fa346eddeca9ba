package contract

import (
	"errors"
	"slices"
	"time"
)

// Code is the stable name of a refusal, part of the interface.
type Code string

// The codes of the interface. Their HTTP statuses are in package problem.
const (
	CodeInvalidRequest       Code = "invalid_request"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeForbidden            Code = "forbidden"
	CodePathInvalid          Code = "path_invalid"
	CodePathExpired          Code = "path_expired"
	CodeCaptchaWrong         Code = "captcha_wrong"
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
	CodeRateLimited          Code = "rate_limited"
	CodeOverloaded           Code = "overloaded"
	CodeGateUnavailable      Code = "gate_unavailable"
	CodeJournalFull          Code = "journal_full"
	CodeUnavailable          Code = "unavailable"
	CodeInternal             Code = "internal"
)

// FieldError names what is wrong with one field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Refusal is an answer other than success, as the caller sees it. Cause is for the log and never leaves the process.
type Refusal struct {
	Code       Code
	Detail     string
	Fields     []FieldError  // of invalid_request
	Members    []Member      // further members of the problem document
	RetryAfter time.Duration // of 429 and 503; 0 there means 1 s
	Cause      error
}

// Member is one of a problem document. It may not have the name of a standard one, nor be code, errors or trace_id.
type Member struct {
	Name  string // in JSON
	Value any
}

// Refuse makes a refusal with a sentence for the caller.
func Refuse(code Code, detail string) *Refusal { return &Refusal{Code: code, Detail: detail} }

// InvalidField refuses a request for one of its fields.
func InvalidField(field, message string) *Refusal {
	return &Refusal{Code: CodeInvalidRequest, Detail: field + ": " + message, Fields: []FieldError{{field, message}}}
}

// With returns a copy that carries one more member, of a name that it does not have yet.
func (r *Refusal) With(name string, value any) *Refusal {
	c := *r
	c.Members = append(slices.Clip(r.Members), Member{name, value})
	return &c
}

// After returns a copy that tells the caller when to come again.
func (r *Refusal) After(d time.Duration) *Refusal { c := *r; c.RetryAfter = d; return &c }

// Because returns a copy that carries the cause.
func (r *Refusal) Because(err error) *Refusal { c := *r; c.Cause = err; return &c }

func (r *Refusal) Error() string {
	s := string(r.Code) + ": " + r.Detail
	if r.Cause != nil {
		s += ": " + r.Cause.Error()
	}
	return s
}

func (r *Refusal) Unwrap() error { return r.Cause }

// CodeOf is the code of the first Refusal in err's chain, CodeInternal when there is none.
func CodeOf(err error) Code {
	if r := RefusalOf(err); r != nil {
		return r.Code
	}
	return CodeInternal
}

// RefusalOf is the first Refusal in err's chain, nil when there is none.
func RefusalOf(err error) *Refusal {
	if r, ok := err.(*Refusal); ok { //nolint:errorlint // by far the most are nothing else, and this is what most buyers are told
		return r
	}
	var r *Refusal
	errors.As(err, &r)
	return r
}
