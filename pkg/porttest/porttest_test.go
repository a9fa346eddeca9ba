package porttest

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusing(t *testing.T) {
	addr := Refusing(t)
	for range 100 {
		_, err := net.Dial("tcp", addr)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	_, err := net.Listen("tcp", addr)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "the test holds the port")
}

func TestFree(t *testing.T) {
	seen := make(map[string]bool)
	for range 20 {
		addr := Free(t)
		require.False(t, seen[addr])
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// A port stays reserved although its server does not listen yet.
func TestTakenUntilTheTestEnds(t *testing.T) {
	addr := ""
	t.Run("one test", func(t *testing.T) {
		addr = Free(t)
		require.False(t, Take(t, portOf(t, addr)), "as if by another process")
	})
	port := portOf(t, addr)
	require.True(t, Take(t, port))
	used, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer used.Close()
	require.False(t, Take(t, used.Addr().(*net.TCPAddr).Port))
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}
