package sqldb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// statementLog is gorm's logger on slog. It logs statements with placeholders only. A failed statement is logged at
// debug: its error is returned and logged once, at the edge, and the server's text may quote values.
type statementLog struct {
	log  *slog.Logger
	slow time.Duration
}

var (
	_ logger.Interface  = (*statementLog)(nil)
	_ gorm.ParamsFilter = (*statementLog)(nil)
)

func (l *statementLog) LogMode(logger.LogLevel) logger.Interface { return l }

func (l *statementLog) Info(ctx context.Context, msg string, args ...any) {
	l.log.DebugContext(ctx, "gorm: "+fmt.Sprintf(msg, args...))
}

func (l *statementLog) Warn(ctx context.Context, msg string, args ...any) {
	l.log.WarnContext(ctx, "gorm: "+fmt.Sprintf(msg, args...))
}

func (l *statementLog) Error(ctx context.Context, msg string, args ...any) {
	l.log.DebugContext(ctx, "gorm: "+fmt.Sprintf(msg, args...))
}

func (l *statementLog) Trace(ctx context.Context, begin time.Time, statement func() (string, int64), err error) {
	took := time.Since(begin)
	switch {
	case err != nil && !errors.Is(err, gorm.ErrRecordNotFound):
		if l.log.Enabled(ctx, slog.LevelDebug) {
			text, _ := statement()
			l.log.DebugContext(ctx, "statement failed", "sql", text, "took", took, "error_code", errorCode(err))
		}
	case took >= l.slow:
		text, rows := statement()
		l.log.WarnContext(ctx, "slow statement", "sql", text, "took", took, "rows", rows)
	}
}

// ParamsFilter removes the values from the statements that Trace gets.
func (l *statementLog) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}

// errorCode names an error without the server's text.
func errorCode(err error) string {
	if my := (*mysqldriver.MySQLError)(nil); errors.As(err, &my) {
		return fmt.Sprintf("mysql %d", my.Number)
	}
	if lite := sqliteError(nil); errors.As(err, &lite) {
		return fmt.Sprintf("sqlite %d", lite.Code())
	}
	return fmt.Sprintf("%T", err)
}

// driverLog receives what the MySQL driver would print to stderr: broken connections, which callers also get as
// errors.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any) { l.log.Debug("mysql driver: " + fmt.Sprint(v...)) }
