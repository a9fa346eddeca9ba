package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/sony/gobreaker/v2"
	"github.com/stretchr/testify/require"
)

// server is a MySQL server whose connections fail with err.
type server struct {
	err   error
	calls int
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.calls++
	return nil, s.err
}

func (*server) Driver() driver.Driver { return nil }

func TestAnUnreachableServerIsProbed(t *testing.T) {
	t.Parallel()
	s := &server{err: &mysqldriver.MySQLError{Number: myTooManyConnections}}
	g := guard(s)
	connect := func() error { _, err := g.Connect(t.Context()); return err }
	for range 2 * dialFailures {
		require.Error(t, connect())
	}
	require.Equal(t, gobreaker.StateClosed, g.breaker.State(), "the server responds")

	s.err = context.Canceled
	for range 2 * dialFailures {
		require.Error(t, connect())
	}
	require.Equal(t, gobreaker.StateClosed, g.breaker.State(), "the callers have cancelled")

	s.err = errors.New("dial tcp: connection refused")
	for range dialFailures {
		require.ErrorIs(t, connect(), s.err)
	}
	require.Eventually(t, func() bool { // some calls are probes
		calls := s.calls
		err := connect()
		require.True(t, IsTransient(err))
		return errors.Is(err, gobreaker.ErrOpenState) && calls == s.calls
	}, 30*time.Second, time.Millisecond)

	s.err = nil
	require.Eventually(t, func() bool { return connect() == nil }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, gobreaker.StateClosed, g.breaker.State())
}
