package storm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// slowRequests are the requests that a slow reader sends at once. Their responses exceed the buffers between.
	slowRequests = 256
	slowInterval = time.Second // between two bytes that a slow reader reads
	// smallest buffers and segments, so that the system takes little of a response that is not read
	slowBuffer, slowSegment = 1, 536
)

// errWatched is the end of a connection that the server did not end.
var errWatched = errors.New("watched to the end")

// hold opens connection i, keeps it open by do and records its end in a step. do returns errWatched, or the error by
// which it detected that the server ended the connection.
func (r *run) hold(ctx context.Context, i int, step string, do func(ctx context.Context, i int, until time.Time) error) {
	began := time.Now()
	err := do(ctx, i, began.Add(r.plan.Watch))
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.report.Step(step)
	var stage *stageError
	switch {
	case errors.Is(err, errWatched):
		held.Count(StillOpen, 1)
	case errors.As(err, &stage):
		held.Fail(NotConnected, err)
	default:
		held.Count(Ended, 1)
		held.Time(took)
	}
}

// sendHalf sends nothing for an even i, and otherwise half of a request.
func (r *run) sendHalf(ctx context.Context, i int, until time.Time) error {
	conn, err := r.dialer(i, until).DialContext(ctx, "tcp", r.host)
	if err != nil {
		return &stageError{"connect", err}
	}
	defer closing(ctx, conn)()
	_ = conn.SetDeadline(until)
	if i%2 == 1 {
		if conn, err = r.usable(ctx, conn); err != nil {
			return err
		}
		half := r.read()
		if _, err := conn.Write(half[:len(half)/2]); err != nil {
			return watched(err)
		}
	}
	_, err = io.Copy(io.Discard, conn)
	return watched(err)
}

// readSlowly sends requests and reads one byte a second. Each second it sends another request, because a write reports
// the end of a connection whose last bytes have not been read.
func (r *run) readSlowly(ctx context.Context, i int, until time.Time) error {
	dialer := r.dialer(i, until)
	dialer.Control = func(_, _ string, raw syscall.RawConn) error {
		var err error
		if failed := raw.Control(func(fd uintptr) {
			err = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowBuffer),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, slowSegment))
		}); failed != nil {
			return failed
		}
		return err
	}
	conn, err := dialer.DialContext(ctx, "tcp", r.host)
	if err != nil {
		return &stageError{"connect", err}
	}
	defer closing(ctx, conn)()
	_ = conn.SetDeadline(until)
	if conn, err = r.usable(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Write(bytes.Repeat(r.read(), slowRequests)); err != nil {
		return watched(err)
	}
	tick := time.NewTicker(slowInterval)
	defer tick.Stop()
	for one := make([]byte, 1); time.Now().Before(until); {
		if _, err := conn.Read(one); err != nil {
			return watched(err)
		}
		if _, err := conn.Write(r.read()); err != nil {
			return watched(err)
		}
		select {
		case <-ctx.Done():
			return errWatched
		case <-tick.C:
		}
	}
	return errWatched
}

// usable returns conn, with TLS where the target has it.
func (r *run) usable(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if r.config == nil {
		return conn, nil
	}
	secured, err := r.secure(ctx, conn, false)
	if err != nil {
		return nil, err
	}
	return secured, nil
}

// closing closes conn when ctx ends; the function that it returns closes conn at once.
func closing(ctx context.Context, conn net.Conn) func() {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return func() {
		stop()
		_ = conn.Close()
	}
}

// watched returns errWatched if this process ended the connection, by its deadline or by an interrupt.
func watched(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		return errWatched
	}
	return err
}
