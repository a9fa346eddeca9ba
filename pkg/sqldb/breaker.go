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
	dialFailures = 3                      // in a row, after which the server counts as away
	awayFor      = 500 * time.Millisecond // until one more connection is tried
)

// guarded keeps callers from waiting, each for a time-out, for a server that does not answer: after some failures in a row
// connections are refused at once but for one now and then. A statement on a connection that broke needs a new one, so
// this is where all of them come by. A server that answers, whatever it says, is there.
type guarded struct {
	driver.Connector
	breaker *gobreaker.CircuitBreaker[driver.Conn]
}

func guard(c driver.Connector) *guarded {
	return &guarded{c, gobreaker.NewCircuitBreaker[driver.Conn](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     awayFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= dialFailures },
		IsSuccessful: func(err error) bool {
			var said *mysqldriver.MySQLError
			return err == nil || errors.As(err, &said)
		},
		IsExcluded: func(err error) bool { return errors.Is(err, context.Canceled) },
	})}
}

// Connect implements driver.Connector.
func (g *guarded) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := g.breaker.Execute(func() (driver.Conn, error) { return g.Connector.Connect(ctx) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return nil, fmt.Errorf("the database does not answer and is not asked at present: %w", err)
	}
	return conn, err
}

// Breaker is the state of the breaker before a MySQL server: closed, half-open or open. SQLite has none: closed.
func Breaker(db *gorm.DB) string {
	if g := extensionOf(db).guard; g != nil {
		return g.breaker.State().String()
	}
	return gobreaker.StateClosed.String()
}
