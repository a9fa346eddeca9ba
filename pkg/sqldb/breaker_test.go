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

// server is a MySQL that says what it is told to.
type server struct {
	err   error
	asked int
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.asked++
	return nil, s.err
}

func (*server) Driver() driver.Driver { return nil }

func TestAnAbsentServerIsAskedNowAndThen(t *testing.T) {
	s := &server{err: &mysqldriver.MySQLError{Number: myTooManyConnections}}
	g := guard(s)
	connect := func() error { _, err := g.Connect(t.Context()); return err }
	for range 2 * dialFailures {
		require.Error(t, connect())
	}
	require.Equal(t, gobreaker.StateClosed, g.breaker.State(), "it answers")

	s.err = context.Canceled
	for range 2 * dialFailures {
		require.Error(t, connect())
	}
	require.Equal(t, gobreaker.StateClosed, g.breaker.State(), "whoever asked has gone")

	s.err = errors.New("dial tcp: connection refused")
	for range dialFailures {
		require.ErrorIs(t, connect(), s.err)
	}
	require.Eventually(t, func() bool { // now and then one may ask
		asked := s.asked
		err := connect()
		require.True(t, IsTransient(err))
		return errors.Is(err, gobreaker.ErrOpenState) && asked == s.asked
	}, 30*time.Second, time.Millisecond)

	s.err = nil
	require.Eventually(t, func() bool { return connect() == nil }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, gobreaker.StateClosed, g.breaker.State())
}
