package order_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

// orderTables returns the names of the existing tables that hold orders, or their lines.
func orderTables(t *testing.T, db *gorm.DB) []string {
	t.Helper()
	all, err := db.Migrator().GetTables()
	require.NoError(t, err)
	var names []string
	for _, name := range all {
		if strings.HasPrefix(name, "orders_") || name == "order_items" {
			names = append(names, name)
		}
	}
	return names
}

func TestAnEmptyDatabaseGetsTheRequestedTables(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	t.Run("mariadb", func(t *testing.T) {
		db := ordertest.MariaDB(t, 4)
		want := []string{"orders_1_00", "orders_1_01", "orders_1_02", "orders_1_03"}
		require.ElementsMatch(t, want, orderTables(t, db))
		require.NoError(t, order.Migrate(t.Context(), db, 1, log), "an existing database keeps its tables")
		require.ElementsMatch(t, want, orderTables(t, db))
		require.NoError(t, db.Exec("DROP TABLE orders_1_03").Error, "as if `migrate up` had been killed before it")
		require.NoError(t, order.Migrate(t.Context(), db, 1, log))
		require.ElementsMatch(t, want, orderTables(t, db))
	})
	t.Run("sqlite", func(t *testing.T) {
		require.Equal(t, []string{"orders_1_00"}, orderTables(t, ordertest.SQLite(t)))
	})
}

// A database of an earlier release keeps its 16 tables, so that pods of that release can serve beside new ones.
func TestADatabaseOfAnEarlierReleaseKeepsItsTables(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, order.Migrations, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, order.Migrate(t.Context(), db, 1, slog.New(slog.DiscardHandler)))
		require.Len(t, orderTables(t, db), 17)
		var version int
		require.NoError(t, db.Raw("SELECT version FROM order_layout").Scan(&version).Error)
		require.Equal(t, 1, version)
	})
}

func TestAWrongNumberOfTablesIsRefused(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{1: true, 2: true, 4: true, 8: true, 16: true, 0: false, -1: false, 3: false, 32: false} {
		err := order.Tables{Count: n}.Validate(true)
		if ok {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "ORDER_TABLES is ")
		var wrong *settings.Error
		require.ErrorAs(t, err, &wrong)
	}
}

// A release that is installed later adds the partitions of the months that have come near.
func TestPartitionsAreAddedByLaterMigrations(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t, 1)
	partitions := func() (names []string) {
		t.Helper()
		require.NoError(t, db.Raw("SELECT partition_name FROM information_schema.partitions WHERE table_schema = DATABASE() "+
			"AND table_name = 'orders_1_00' ORDER BY partition_ordinal_position").Scan(&names).Error)
		return names
	}
	want := partitions()
	require.Len(t, want, 15, "before this month, this month, 12 months ahead, and the rest")
	dropped := strings.Join(want[10:14], ", ")
	require.NoError(t, db.Exec("ALTER TABLE orders_1_00 DROP PARTITION "+dropped).Error)
	for range 2 {
		require.NoError(t, order.Migrate(t.Context(), db, 1, slog.New(slog.DiscardHandler)))
		require.Equal(t, want, partitions())
	}
	require.False(t, sqldb.IsSQLite(db))
}
