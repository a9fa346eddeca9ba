package porttest

import (
	"net"
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
