package client

import (
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// Problem is an error response of a service (RFC 9457).
type Problem struct {
	Status         int                   `json:"status"`
	Code           contract.Code         `json:"code"`
	Title          string                `json:"title"`
	Detail         string                `json:"detail"`
	TraceID        string                `json:"trace_id"`
	Errors         []contract.FieldError `json:"errors"`
	StartsAt       time.Time             `json:"starts_at"`
	MayReturnUntil time.Time             `json:"may_return_until"`
	OrderSN        string                `json:"order_sn"`
	OrderSNs       []string              `json:"order_sns"`
	BarredUntil    time.Time             `json:"barred_until"`

	// RetryAfter is the value of the header Retry-After; 0 if there was none.
	RetryAfter time.Duration `json:"-"`
	call       string
}

func (p *Problem) Error() string {
	s := fmt.Sprintf("%s: %d %s", p.call, p.Status, p.Code)
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	for _, e := range p.Errors {
		s += fmt.Sprintf("; %s %s", e.Field, e.Message)
	}
	if p.TraceID != "" {
		s += " (trace " + p.TraceID + ")"
	}
	return s
}

// AsProblem returns the first Problem in err's chain. It returns nil if there is none: then no service responded.
func AsProblem(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	return nil
}

// CodeOf returns the code of the first Problem in err's chain, or "".
func CodeOf(err error) contract.Code {
	if p := AsProblem(err); p != nil {
		return p.Code
	}
	return ""
}
