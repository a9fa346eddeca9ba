package dbtest

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// RepeatMigrations checks that `migrate up` can be run again after a process was killed within any migration, as
// subtests "mariadb" and "sqlite".
//
// MySQL and MariaDB commit each change of a table by itself, so a migration may be complete without its row in goose's
// table of versions. There RepeatMigrations deletes the row and runs the migration again, which must change nothing.
// In SQLite a migration and its row are one transaction. There RepeatMigrations prevents the row, which must undo the
// whole migration, and runs it again.
func RepeatMigrations(t *testing.T, migrations fs.FS) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) {
		db := connect(t, MariaDBDSN(t))
		for _, version := range versions(t, migrations, "mysql") {
			upTo := until(t, migrations, version)
			require.NoError(t, apply(t, db, upTo))
			before := schemaOf(t, db)
			res := db.Exec("DELETE FROM goose_db_version WHERE version_id = ?", version)
			require.NoError(t, res.Error)
			require.EqualValues(t, 1, res.RowsAffected, "version %d", version)
			require.NoError(t, apply(t, db, upTo), "version %d again", version)
			require.Equal(t, before, schemaOf(t, db), "version %d", version)
			requireApplied(t, db, upTo)
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		db := connect(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
		_, err := sqldb.Status(t.Context(), db, migrations) // creates goose's table
		require.NoError(t, err)
		for _, version := range versions(t, migrations, "sqlite") {
			upTo := until(t, migrations, version)
			before := schemaOf(t, db)
			require.NoError(t, db.Exec(fmt.Sprintf("CREATE TRIGGER killed BEFORE INSERT ON goose_db_version "+
				"WHEN NEW.version_id = %d BEGIN SELECT RAISE(ABORT, 'killed'); END", version)).Error)
			require.ErrorContains(t, apply(t, db, upTo), "killed", "version %d", version)
			require.NoError(t, db.Exec("DROP TRIGGER killed").Error)
			require.Equal(t, before, schemaOf(t, db), "version %d", version)
			require.NoError(t, apply(t, db, upTo), "version %d again", version)
			require.NotEqual(t, before, schemaOf(t, db), "version %d", version)
			requireApplied(t, db, upTo)
		}
	})
}

func apply(t *testing.T, db *gorm.DB, migrations fs.FS) error {
	return sqldb.Migrate(t.Context(), db, migrations, slog.New(slog.DiscardHandler))
}

func requireApplied(t *testing.T, db *gorm.DB, migrations fs.FS) {
	t.Helper()
	list, err := sqldb.Status(t.Context(), db, migrations)
	require.NoError(t, err)
	for _, m := range list {
		require.False(t, m.AppliedAt.IsZero(), m.Name)
	}
}

// versions returns the numbers of the migrations of a dialect, ascending.
func versions(t *testing.T, migrations fs.FS, dialect string) []int64 {
	t.Helper()
	files, err := fs.Glob(migrations, "migrations/"+dialect+"/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := make([]int64, len(files))
	for i, file := range files {
		all[i] = versionOf(t, file)
	}
	slices.Sort(all)
	return all
}

func versionOf(t *testing.T, file string) int64 {
	t.Helper()
	number, _, _ := strings.Cut(path.Base(file), "_")
	version, err := strconv.ParseInt(number, 10, 64)
	require.NoError(t, err, file)
	return version
}

// until returns the migrations of all dialects up to a version.
func until(t *testing.T, migrations fs.FS, version int64) fs.FS {
	t.Helper()
	files, err := fs.Glob(migrations, "migrations/*/*.sql")
	require.NoError(t, err)
	some := fstest.MapFS{}
	for _, file := range files {
		if versionOf(t, file) > version {
			continue
		}
		text, err := fs.ReadFile(migrations, file)
		require.NoError(t, err)
		some[file] = &fstest.MapFile{Data: text}
	}
	return some
}

// schemaOf returns the statements that would create the tables and keys, except goose's table of versions.
func schemaOf(t *testing.T, db *gorm.DB) []string {
	t.Helper()
	if sqldb.IsSQLite(db) {
		var all []string
		require.NoError(t, db.Raw("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").Scan(&all).Error)
		return all
	}
	var tables []string
	require.NoError(t, db.Raw("SHOW TABLES").Scan(&tables).Error)
	all := map[string]string{}
	for _, table := range tables {
		if table == "goose_db_version" {
			continue
		}
		var name, statement string
		require.NoError(t, db.Raw("SHOW CREATE TABLE "+table).Row().Scan(&name, &statement))
		all[name] = statement
	}
	return slices.Sorted(maps.Values(all))
}
