package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/sony/gobreaker/v2"
	"gorm.io/gorm"
)

const (
	dialFailures = 3                      // consecutive failures that open the breaker
	openFor      = 500 * time.Millisecond // time until one more connection is tried
)

// guarded is a connector with a circuit breaker, so that callers do not each wait for a time-out of an unreachable
// server. While the breaker is open, connections are refused immediately, except for a probe at each openFor. A
// statement on a broken connection needs a new one, so all of them pass the breaker. Any response of the server, even
// an error, counts as success.
type guarded struct {
	driver.Connector
	breaker *gobreaker.CircuitBreaker[driver.Conn]
}

func guard(c driver.Connector) *guarded {
	return &guarded{c, gobreaker.NewCircuitBreaker[driver.Conn](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= dialFailures },
		IsSuccessful: func(err error) bool {
			var response *mysqldriver.MySQLError
			return err == nil || errors.As(err, &response)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
	})}
}

// Connect implements driver.Connector.
func (g *guarded) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := g.breaker.Execute(func() (driver.Conn, error) { return g.Connector.Connect(ctx) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return nil, fmt.Errorf("database unreachable, connection not attempted: %w", err)
	}
	return conn, err
}

// Breaker returns the state of the breaker before a MySQL server: closed, half-open or open. For SQLite it is closed.
func Breaker(db *gorm.DB) string {
	if g := extensionOf(db).guard; g != nil {
		return g.breaker.State().String()
	}
	return gobreaker.StateClosed.String()
}
