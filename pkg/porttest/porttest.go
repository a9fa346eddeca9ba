// Package porttest provides tests with local addresses.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The range of ports that Free returns: between those of the dependencies and those of Kubernetes' nodes, and outside
// of the range that Linux uses for outgoing connections. A service may start a minute after its address was chosen,
// and thousands of connections may be opened until then.
const (
	firstPort = 28_600
	lastPort  = 29_990
)

// Free returns an unused address, for a server that the test starts. No other test gets it before this one has ended.
func Free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if Take(t, port) {
			return address(port)
		}
	}
	require.Fail(t, "no free port")
	return ""
}

// Take reserves a TCP port until the test ends, and reports whether it was free. Several test programs run at a time,
// and the server listens later. So the test holds the UDP port of the same number, which nothing else uses.
func Take(t testing.TB, port int) bool {
	t.Helper()
	held, err := net.ListenPacket("udp", address(port))
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		require.NoError(t, held.Close())
		return false
	}
	require.NoError(t, l.Close())
	t.Cleanup(func() { assert.NoError(t, held.Close()) })
	return true
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

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
	return address(bound.(*syscall.SockaddrInet4).Port)
}
