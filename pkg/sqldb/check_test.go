package sqldb_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
)

func TestCheckComparesTheMigrations(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, sqldb.Check(t.Context(), db, migrations))
		older, newer := fstest.MapFS{}, fstest.MapFS{}
		for _, dialect := range []string{"mysql", "sqlite"} {
			name := "migrations/" + dialect + "/00001_items.sql"
			text, err := fs.ReadFile(migrations, name)
			require.NoError(t, err)
			older[name] = &fstest.MapFile{Data: text}
			newer["migrations/"+dialect+"/00009_later.sql"] = &fstest.MapFile{}
		}
		require.EqualError(t, sqldb.Check(t.Context(), db, newer), "migration 9 is pending, and 2 the last applied one")
		require.EqualError(t, sqldb.Check(t.Context(), db, older), "migration 2 is applied, which this program does not have")
		require.NoError(t, db.Exec("DROP TABLE goose_db_version").Error)
		require.EqualError(t, sqldb.Check(t.Context(), db, migrations), "migration 2 is pending, and 0 the last applied one")
		require.False(t, db.Migrator().HasTable("goose_db_version"), "it creates nothing")
	})
}
