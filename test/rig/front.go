package rig

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front is one address before the processes of a service, as an installation has: each new connection goes to the next
// process that takes it, and ends when that process ends.
type front struct {
	addr     string
	backends []string
	turn     atomic.Uint64
	work     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// before listens until the test ends.
func before(t testing.TB, backends ...string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &front{addr: l.Addr().String(), backends: backends, open: make(map[net.Conn]struct{})}
	f.work.Go(func() {
		for {
			caller, err := l.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { f.serve(caller) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		f.closed = true
		for conn := range f.open {
			_ = conn.Close()
		}
		f.mu.Unlock()
		f.work.Wait()
	})
	return f
}

func (f *front) serve(caller net.Conn) {
	defer f.forget(caller)
	if !f.keep(caller) {
		return
	}
	backend := f.dial()
	if backend == nil {
		return
	}
	defer f.forget(backend)
	if !f.keep(backend) {
		return
	}
	// When one side ends so does the other: nobody here closes half of a connection.
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(caller, backend)
		_ = caller.Close()
	})
	_, _ = io.Copy(backend, caller)
	_ = backend.Close()
	answers.Wait()
}

// dial asks the processes in turn, each once; nil when none is there.
func (f *front) dial() net.Conn {
	turn := f.turn.Add(1)
	for i := range f.backends {
		addr := f.backends[(turn+uint64(i))%uint64(len(f.backends))]
		if conn, err := net.DialTimeout("tcp", addr, 2*time.Second); err == nil {
			return conn
		}
	}
	return nil
}

// keep notes an open connection; false when the front is closed.
func (f *front) keep(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.open[conn] = struct{}{}
	}
	return !f.closed
}

func (f *front) forget(conn net.Conn) {
	_ = conn.Close()
	f.mu.Lock()
	delete(f.open, conn)
	f.mu.Unlock()
}
