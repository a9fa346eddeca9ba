package storm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"syscall"
	"time"

	"flashsale.internal/flashctl/internal/latency"
)

// Sample is what one process measured.
type Sample struct {
	Begun      int               `json:"begun"`
	First      time.Time         `json:"first"` // begin of the first connection
	Last       time.Time         `json:"last"`  // begin of the last one
	Outcomes   map[string]int    `json:"outcomes"`
	Errors     map[string]int    `json:"errors"`
	Examples   map[string]string `json:"examples"`
	Connected  []time.Duration   `json:"connected"` // from the begin to the end of the TCP and TLS handshakes
	Took       []time.Duration   `json:"took"`      // from the begin to the response
	Handshakes int               `json:"handshakes"`
	Resumed    int               `json:"resumed"`
	Slow       Held              `json:"slow"`
	HalfOpen   Held              `json:"half_open"`
}

// Held counts connections that stay open without a whole exchange.
type Held struct {
	Begun     int             `json:"begun"`
	Failed    int             `json:"failed"`     // not connected
	StillOpen int             `json:"still_open"` // after Plan.Watch
	Ended     []time.Duration `json:"ended"`      // by the server, after that time
}

func newSample() Sample {
	return Sample{Outcomes: map[string]int{}, Errors: map[string]int{}, Examples: map[string]string{}}
}

func (s *Sample) begin(at time.Time) {
	s.Begun++
	if s.First.IsZero() || at.Before(s.First) {
		s.First = at
	}
	if at.After(s.Last) {
		s.Last = at
	}
}

func (s *Sample) fail(err error) {
	kind := kindOf(err)
	s.Errors[kind]++
	s.example(kind, err)
}

func (s *Sample) example(kind string, err error) {
	if s.Examples[kind] == "" {
		s.Examples[kind] = err.Error()
	}
}

// add adds the sample of another process.
func (s *Sample) add(o Sample) {
	if o.Begun > 0 {
		s.begin(o.First)
		s.begin(o.Last)
		s.Begun += o.Begun - 2
	}
	for k, n := range o.Outcomes {
		s.Outcomes[k] += n
	}
	for k, n := range o.Errors {
		s.Errors[k] += n
	}
	maps.Copy(s.Examples, o.Examples)
	s.Connected, s.Took = append(s.Connected, o.Connected...), append(s.Took, o.Took...)
	s.Handshakes += o.Handshakes
	s.Resumed += o.Resumed
	s.Slow.add(o.Slow)
	s.HalfOpen.add(o.HalfOpen)
}

func (h *Held) add(o Held) {
	h.Begun += o.Begun
	h.Failed += o.Failed
	h.StillOpen += o.StillOpen
	h.Ended = append(h.Ended, o.Ended...)
}

// Report is the result of a storm.
type Report struct {
	Begun       int               `json:"begun"`
	BegunWithin time.Duration     `json:"begun_within_ns"`
	Outcomes    map[string]int    `json:"outcomes"` // the status, with the code of a refusal
	Errors      map[string]int    `json:"errors"`   // connections without a response, by the step and the kind of error
	Examples    map[string]string `json:"examples,omitempty"`
	// Connected is the time from the begin of a connection to the end of its handshakes, Response to its response.
	Connected  latency.Summary `json:"connected"`
	Response   latency.Summary `json:"response"`
	Handshakes int             `json:"tls_handshakes"`
	Resumed    int             `json:"tls_resumed"`
	Slow       HeldReport      `json:"slow"`
	HalfOpen   HeldReport      `json:"half_open"`
}

// HeldReport is the result of connections that stay open without a whole exchange.
type HeldReport struct {
	Begun     int             `json:"begun"`
	Failed    int             `json:"failed"`
	Ended     latency.Summary `json:"ended_by_server"`
	StillOpen int             `json:"still_open"`
}

func (s *Sample) report() Report {
	held := func(h Held) HeldReport {
		return HeldReport{Begun: h.Begun, Failed: h.Failed, Ended: latency.Of(h.Ended), StillOpen: h.StillOpen}
	}
	return Report{
		Begun: s.Begun, BegunWithin: s.Last.Sub(s.First), Outcomes: s.Outcomes, Errors: s.Errors, Examples: s.Examples,
		Connected: latency.Of(s.Connected), Response: latency.Of(s.Took),
		Handshakes: s.Handshakes, Resumed: s.Resumed, Slow: held(s.Slow), HalfOpen: held(s.HalfOpen),
	}
}

// stageError is an error of one step of a connection.
type stageError struct {
	stage string // connect, tls, request or response
	err   error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }

func (e *stageError) Unwrap() error { return e.err }

// kindOf returns the step and the kind of an error, for example "connect: refused".
func kindOf(err error) string {
	var stage *stageError
	prefix := ""
	if errors.As(err, &stage) {
		prefix = stage.stage + ": "
	}
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.Is(err, context.Canceled):
		return prefix + "interrupted"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return prefix + "time-out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return prefix + "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return prefix + "reset"
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EADDRINUSE):
		return prefix + "no free port"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return prefix + "no free descriptor"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return prefix + "closed"
	case errors.As(err, &certificate), errors.As(err, &unknown):
		return prefix + "certificate"
	}
	return prefix + "other"
}
