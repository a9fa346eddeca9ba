package sqldb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
)

type liteError int

func (e liteError) Error() string { return "sqlite" }
func (e liteError) Code() int     { return int(e) }

func TestIsTransientAndIsDuplicate(t *testing.T) {
	t.Parallel()
	my := func(n uint16) error { return &mysql.MySQLError{Number: n, Message: "text"} }
	for _, c := range []struct {
		name                 string
		err                  error
		transient, duplicate bool
	}{
		{"nil", nil, false, false},
		{"bad connection", driver.ErrBadConn, true, false},
		{"invalid connection", mysql.ErrInvalidConn, true, false},
		{"connection done", sql.ErrConnDone, true, false},
		{"end of stream", io.ErrUnexpectedEOF, true, false},
		{"refused dial", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, true, false},
		{"i/o time-out", os.ErrDeadlineExceeded, true, false},
		{"deadline", context.DeadlineExceeded, true, false},
		{"cancelled", context.Canceled, true, false},
		{"deadlock", my(1213), true, false},
		{"lock wait", my(1205), true, false},
		{"too many connections", my(1040), true, false},
		{"user above its connection limit", my(1226), true, false},
		{"read-only server", my(1290), true, false},
		{"super-read-only", my(1836), true, false},
		{"shutting down", my(1053), true, false},
		{"killed", my(1317), true, false},
		{"disk full", my(1021), true, false},
		{"no such table", my(1146), true, false},
		{"access denied", my(1045), true, false},
		{"duplicate", my(1062), false, true},
		{"duplicate, wrapped", fmt.Errorf("insert: %w", my(1062)), false, true},
		{"gorm's duplicate", gorm.ErrDuplicatedKey, false, true},
		{"foreign key", my(1452), false, false},
		{"check, MySQL", my(3819), false, false},
		{"check, MariaDB", my(4025), false, false},
		{"too long", my(1406), false, false},
		{"out of range", my(1264), false, false},
		{"unsigned below zero", my(1690), false, false},
		{"not found", gorm.ErrRecordNotFound, false, false},
		{"no rows", sql.ErrNoRows, false, false},
		{"sqlite busy", liteError(5), true, false},
		{"sqlite busy snapshot", liteError(5 | 2<<8), true, false},
		{"sqlite locked", liteError(6), true, false},
		{"sqlite disk", liteError(10), true, false},
		{"sqlite full", liteError(13), true, false},
		{"sqlite unique", liteError(2067), false, true},
		{"sqlite primary key", liteError(1555), false, true},
		{"sqlite check", liteError(275), false, false},
		{"sqlite not null", liteError(1299), false, false},
		{"commit unknown", fmt.Errorf("commit: %w: %w", sqldb.ErrCommitUnknown, mysql.ErrInvalidConn), true, false},
		{"race", sqldb.Race(my(1062)), true, true},
		{"refusal", contract.Refuse(contract.CodeSoldOut, "x"), false, false},
		{"refusal for a transient cause", contract.Refuse(contract.CodeStateConflict, "x").Because(context.Canceled), false, false},
		{"refusal that permits a retry", contract.Refuse(contract.CodeUnavailable, "x"), true, false},
		{"gate unavailable", contract.Refuse(contract.CodeGateUnavailable, "x"), true, false},
		{"anything else", errors.New("unknown"), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.transient, sqldb.IsTransient(c.err))
			require.Equal(t, c.duplicate, sqldb.IsDuplicate(c.err))
		})
	}
}
