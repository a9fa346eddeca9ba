package dbtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// templates hold what a test binary needs to make one more migrated database, so that it runs each set of migrations
// once. For SQLite that is the content of the file, for MariaDB the statements that create tables and rows.
var templates = struct {
	sync.Mutex
	sqlite  map[string][]byte
	mariadb map[string][]string
}{sqlite: map[string][]byte{}, mariadb: map[string][]string{}}

// Prepare creates the tables of an empty database.
type Prepare func(ctx context.Context, db *gorm.DB) error

// migrate returns a Prepare that applies the migrations, and their digest.
func migrate(t testing.TB, migrations fs.FS) (kind string, prepare Prepare) {
	t.Helper()
	files, err := fs.Glob(migrations, "migrations/*/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files, "migrations/*/*.sql")
	hash := sha256.New()
	for _, file := range files {
		text, err := fs.ReadFile(migrations, file)
		require.NoError(t, err)
		_, _ = fmt.Fprintf(hash, "%q %q\n", file, text)
	}
	return hex.EncodeToString(hash.Sum(nil)), func(ctx context.Context, db *gorm.DB) error {
		return sqldb.Migrate(ctx, db, migrations, slog.New(slog.DiscardHandler))
	}
}

// PreparedSQLite returns a database in a temporary file. The first call of a kind runs prepare, later calls copy the
// file that it made.
func PreparedSQLite(t testing.TB, kind string, prepare Prepare) *gorm.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	require.NoError(t, os.WriteFile(file, sqliteTemplate(t, kind, prepare), 0o600))
	return connect(t, "sqlite:"+file)
}

// PreparedMariaDB returns a database with a random name on the server of MYSQL_DSN. The first call of a kind runs
// prepare, later calls repeat the tables and rows that it made. The database is dropped when the test ends.
func PreparedMariaDB(t testing.TB, kind string, prepare Prepare) *gorm.DB {
	t.Helper()
	statements := mariadbTemplate(t, kind, prepare)
	dsn := MariaDBDSN(t)
	repeat(t, dsn, statements)
	return connect(t, dsn)
}

func sqliteTemplate(t testing.TB, kind string, prepare Prepare) []byte {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	if content, ok := templates.sqlite[kind]; ok {
		return content
	}
	file := filepath.Join(t.TempDir(), "template.db")
	prepareAt(t, "sqlite:"+file, prepare)
	content, err := os.ReadFile(file) // whole: the last connection that closes moves the write-ahead log into it
	require.NoError(t, err)
	templates.sqlite[kind] = content
	return content
}

func mariadbTemplate(t testing.TB, kind string, prepare Prepare) []string {
	t.Helper()
	templates.Lock()
	defer templates.Unlock()
	if statements, ok := templates.mariadb[kind]; ok {
		return statements
	}
	dsn := MariaDBDSN(t)
	prepareAt(t, dsn, prepare)
	statements := dump(t, dsn)
	templates.mariadb[kind] = statements
	return statements
}

func prepareAt(t testing.TB, dsn string, prepare Prepare) {
	t.Helper()
	db, err := sqldb.Open(dsn, patient(0))
	require.NoError(t, err)
	defer func() { require.NoError(t, sqldb.Close(db)) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, prepare(ctx, db), "prepare a database")
}

// dump returns the statements that create the tables of a MariaDB database again, and their rows.
func dump(t testing.TB, dsn string) (statements []string) {
	t.Helper()
	db, err := sqldb.Open(dsn, patient(1))
	require.NoError(t, err)
	defer func() { require.NoError(t, sqldb.Close(db)) }()
	var tables []string
	require.NoError(t, db.Raw("SHOW TABLES").Scan(&tables).Error)
	for _, table := range tables {
		var name, create string
		require.NoError(t, db.Raw("SHOW CREATE TABLE "+table).Row().Scan(&name, &create))
		statements = append(statements, create)
		// Generated columns take no values.
		var columns []string
		require.NoError(t, db.Raw("SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "+
			"AND table_name = ? AND extra NOT LIKE '%GENERATED%' ORDER BY ordinal_position", table).Scan(&columns).Error)
		quoted := make([]string, len(columns))
		for i, column := range columns {
			quoted[i] = "COALESCE(QUOTE(`" + column + "`), 'NULL')"
		}
		var rows []string
		require.NoError(t, db.Raw("SELECT CONCAT_WS(',', "+strings.Join(quoted, ", ")+") FROM `"+table+"`").Scan(&rows).Error)
		if len(rows) > 0 {
			statements = append(statements, "INSERT INTO `"+table+"` (`"+strings.Join(columns, "`,`")+"`) VALUES ("+
				strings.Join(rows, "),(")+")")
		}
	}
	return statements
}

// repeat runs the statements of a template in an empty database, in one call.
func repeat(t testing.TB, dsn string, statements []string) {
	t.Helper()
	cfg, err := mysqldriver.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.MultiStatements = true
	connector, err := mysqldriver.NewConnector(cfg)
	require.NoError(t, err)
	pool := sql.OpenDB(connector)
	defer func() { require.NoError(t, pool.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = pool.ExecContext(ctx, strings.Join(statements, ";\n"))
	require.NoError(t, err, "repeat a prepared database")
}
