package httpserver

import (
	"bytes"
	"errors"
	"regexp"
	"time"
)

// Time is a time in a request: RFC 3339 exactly, with T and Z in either case (its section 5.6). The standard library also
// takes a comma before the fraction, hours of one digit and any offset.
type Time struct{ time.Time }

var (
	rfc3339    = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"$`)
	errRFC3339 = errors.New("Time.UnmarshalJSON: not RFC 3339")
)

// UnmarshalJSON implements json.Unmarshaler. null changes nothing, as for time.Time.
func (t *Time) UnmarshalJSON(text []byte) error {
	if text = bytes.ToUpper(text); string(text) == "NULL" {
		return nil
	}
	if !rfc3339.Match(text) {
		return errRFC3339
	}
	return t.Time.UnmarshalJSON(text)
}

// Moment returns the time of an optional field, nil without one.
func (t *Time) Moment() *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}
