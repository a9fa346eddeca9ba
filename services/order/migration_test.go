package order_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

func TestMigrationsCanBeRepeated(t *testing.T) { dbtest.RepeatMigrations(t, order.Migrations) }

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
