package storm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Steps of the report. Times of responses and of connections begin with the connection.
const (
	Begun     = "begun"     // times: from the start of the storm to the begin of a connection
	Connected = "connected" // times: to the end of the TCP and TLS handshakes; outcomes: NewSession, Resumed
	Responses = "response"  // times: to the response; outcomes: those of the requests, or the step and kind of the error
	Slow      = "slow"      // times: until the server ended the connection; outcomes: NotConnected, StillOpen, Ended
	HalfOpen  = "half-open" // likewise
)

// Outcomes of connections.
const (
	NewSession   = "TLS, new session"
	Resumed      = "TLS, session resumed"
	NotConnected = "not connected"
	StillOpen    = "still open" // after Plan.Watch
	Ended        = "ended by the server"
)

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
