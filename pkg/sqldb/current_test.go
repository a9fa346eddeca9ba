package sqldb_test

import (
	"errors"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

// Connections that are open keep their user; each new one has that of the current DSN.
func TestNewConnectionsHaveTheCurrentUser(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDBDSN(t)
	admin, err := sqldb.Open(dsn, sqldb.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(admin) })
	cfg, err := mysqldriver.ParseDSN(dsn)
	require.NoError(t, err)
	of := func(user, password string) string {
		c := cfg.Clone()
		c.User, c.Passwd = user, password
		return c.FormatDSN()
	}
	name := cfg.DBName[len(cfg.DBName)-12:]
	before, after := "before_"+name, "after_"+name
	for _, user := range []string{before, after} {
		require.NoError(t, admin.Exec("CREATE USER '"+user+"'@'%' IDENTIFIED BY 'hush-"+user+"'").Error)
		t.Cleanup(func() { require.NoError(t, admin.Exec("DROP USER '"+user+"'@'%'").Error) })
		require.NoError(t, admin.Exec("GRANT ALL ON "+cfg.DBName+".* TO '"+user+"'@'%'").Error)
	}

	current, problem := of(before, "hush-"+before), error(nil)
	db, err := sqldb.Open(current, sqldb.Options{MaxOpen: 2, CurrentDSN: func() (string, error) { return current, problem }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = sqldb.Close(db) })
	pool, err := db.DB()
	require.NoError(t, err)
	first, err := pool.Conn(t.Context())
	require.NoError(t, err)
	user := func(row interface{ Scan(...any) error }) (name string) {
		require.NoError(t, row.Scan(&name))
		return name
	}
	const ask = "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
	require.Equal(t, before, user(first.QueryRowContext(t.Context(), ask)))

	problem = errors.New("the file cannot be read")
	_, err = pool.Conn(t.Context())
	require.ErrorIs(t, err, problem)
	require.True(t, sqldb.IsTransient(err))
	current, problem = "hush-"+after+"@", nil
	_, err = pool.Conn(t.Context())
	require.ErrorContains(t, err, "the MySQL DSN is malformed")
	require.NotContains(t, err.Error(), "hush")

	current = of(after, "hush-"+after)
	second, err := pool.Conn(t.Context())
	require.NoError(t, err)
	require.Equal(t, after, user(second.QueryRowContext(t.Context(), ask)))
	require.Equal(t, before, user(first.QueryRowContext(t.Context(), ask)))
	require.NoError(t, errors.Join(first.Close(), second.Close()))
}
