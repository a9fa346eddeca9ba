package contract

import (
	"errors"
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
	Fields     []FieldError   // of invalid_request
	Members    map[string]any // further members of the problem document, by their JSON name
	RetryAfter time.Duration  // of 429 and 503; 0 there means 1 s
	Cause      error
}

// Refuse makes a refusal with a sentence for the caller.
func Refuse(code Code, detail string) *Refusal { return &Refusal{Code: code, Detail: detail} }

// InvalidField refuses a request for one of its fields.
func InvalidField(field, message string) *Refusal {
	return &Refusal{Code: CodeInvalidRequest, Detail: field + ": " + message, Fields: []FieldError{{field, message}}}
}

// With returns a copy that carries one more member.
func (r *Refusal) With(name string, value any) *Refusal {
	c := *r
	c.Members = make(map[string]any, len(r.Members)+1)
	for k, v := range r.Members {
		c.Members[k] = v
	}
	c.Members[name] = value
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
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r.Code
	}
	return CodeInternal
}
