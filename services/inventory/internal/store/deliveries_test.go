package store_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/inventory/internal/store"
	"flashsale.internal/services/inventory/internal/webhooks"
)

// addDeliveries adds waiting deliveries to an endpoint, with order_sns from first on.
func addDeliveries(t *testing.T, s *store.Store, endpoint string, first, n int) {
	t.Helper()
	var list []webhooks.Delivery
	for i := range n {
		list = append(list, webhooks.Delivery{
			EndpointID: endpoint, OrderSN: strconv.Itoa(first + i), ChangedAt: time.Now(), Type: "order.paid", Body: []byte("{}"),
		})
	}
	require.NoError(t, s.AddDeliveries(t.Context(), list, false))
}

// A sweep reads the oldest deliveries, however many there are, and none twice.
func TestASweepReadsFewDeliveries(t *testing.T) {
	const rows = 9000
	dbtest.Each(t, inventory.Migrations, func(t *testing.T, db *gorm.DB) {
		require.NoError(t, db.Connection(func(one *gorm.DB) error {
			s := store.New(one)
			addDeliveries(t, s, "1", 1, rows)
			sweep := func() error { return s.SweepDeliveries(t.Context(), time.Now().Add(-time.Hour)) }
			left := func() (n int64) {
				require.NoError(t, one.Table("deliveries").Count(&n).Error)
				return n
			}
			if one.Dialector.Name() == "mysql" {
				readsFew(t, one, "nothing to sweep", 4100, sweep)
			}
			require.NoError(t, one.Exec("UPDATE deliveries SET created_at = '2020-01-01' WHERE order_sn <= 4500 OR order_sn > 8999").Error)
			require.NoError(t, sweep())
			require.EqualValues(t, 4500, left(), "all but one that is not among the oldest")
			return nil
		}))
	})
}
