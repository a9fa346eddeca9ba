// Package porttest provides tests with local addresses.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The range of ports that Free returns: between those of the dependencies and those of Kubernetes' nodes, and outside
// of the range that Linux uses for outgoing connections. A service may start a minute after its address was chosen,
// and thousands of connections may be opened until then.
const (
	firstPort = 28_600
	lastPort  = 29_990
)

var given sync.Map // ports that Free has returned in this process

// Free returns an unused address, for a server that the test starts.
func Free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if _, known := given.LoadOrStore(port, true); known {
			continue
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if l, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
	require.Fail(t, "no free port")
	return ""
}

// Refusing returns an address that refuses connections until the test ends. Its port is bound without a listener: an
// unbound port could get another listener a moment later.
func Refusing(t testing.TB) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(socket)) })
	require.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := syscall.Getsockname(socket)
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.(*syscall.SockaddrInet4).Port))
}
