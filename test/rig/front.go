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

// front is a load balancer for the processes of a service: each new connection goes to the next process that accepts
// it and has not been taken out of turn. A connection ends when its process ends.
type front struct {
	addr     string
	backends []string
	turn     atomic.Uint64
	work     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
	out    map[string]bool // backends that get no new connections
}

// before starts a front that listens until the test ends.
func before(t testing.TB, backends ...string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &front{
		addr: l.Addr().String(), backends: backends, open: make(map[net.Conn]struct{}), out: make(map[string]bool),
	}
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
	defer f.drop(caller)
	if !f.keep(caller) {
		return
	}
	backend := f.dial()
	if backend == nil {
		return
	}
	defer f.drop(backend)
	if !f.keep(backend) {
		return
	}
	// When one side ends, the other is closed too: no client here closes half of a connection.
	var responses sync.WaitGroup
	responses.Go(func() {
		_, _ = io.Copy(caller, backend)
		_ = caller.Close()
	})
	_, _ = io.Copy(backend, caller)
	_ = backend.Close()
	responses.Wait()
}

// dial tries each process once, in turn, and returns nil if none accepts the connection.
func (f *front) dial() net.Conn {
	turn := f.turn.Add(1)
	for i := range f.backends {
		addr := f.backends[(turn+uint64(i))%uint64(len(f.backends))]
		if f.isOut(addr) {
			continue
		}
		if conn, err := net.DialTimeout("tcp", addr, 2*time.Second); err == nil {
			return conn
		}
	}
	return nil
}

// takeOut ends or resumes new connections to a backend. Open connections stay.
func (f *front) takeOut(backend string, out bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out[backend] = out
}

func (f *front) isOut(backend string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out[backend]
}

// keep records an open connection, and reports false if the front is closed.
func (f *front) keep(conn net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.open[conn] = struct{}{}
	}
	return !f.closed
}

// drop closes a connection and removes its record.
func (f *front) drop(conn net.Conn) {
	_ = conn.Close()
	f.mu.Lock()
	delete(f.open, conn)
	f.mu.Unlock()
}
