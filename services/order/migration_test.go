package order_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

func TestMigrationsCanBeRepeated(t *testing.T) { dbtest.RepeatMigrations(t, order.Migrations) }

func TestSeveralProcessesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MariaDBDSN(t)
	var processes sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		processes.Go(func() {
			db, err := sqldb.Open(dsn, sqldb.Options{})
			if err != nil {
				errs[n] = err
				return
			}
			errs[n] = errors.Join(order.Migrate(t.Context(), db, slog.New(slog.DiscardHandler)), sqldb.Close(db))
		})
	}
	processes.Wait()
	require.NoError(t, errors.Join(errs...))
}

// A release that is installed later adds the partitions of the months that have come near.
func TestPartitionsAreAddedByLaterMigrations(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	partitions := func() (names []string) {
		t.Helper()
		require.NoError(t, db.Raw("SELECT partition_name FROM information_schema.partitions WHERE table_schema = DATABASE() "+
			"AND table_name = 'orders' ORDER BY partition_ordinal_position").Scan(&names).Error)
		return names
	}
	want := partitions()
	require.Len(t, want, 15, "before this month, this month, 12 months ahead, and the rest")
	dropped := strings.Join(want[10:14], ", ")
	require.NoError(t, db.Exec("ALTER TABLE orders DROP PARTITION "+dropped).Error)
	for range 2 {
		require.NoError(t, order.Migrate(t.Context(), db, slog.New(slog.DiscardHandler)))
		require.Equal(t, want, partitions())
	}
}
