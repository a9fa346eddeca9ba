package store_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/services/inventory"
	"flashsale.internal/services/inventory/internal/core"
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

// What waits is read by the index, however many deliveries are before and after it.
func TestWaitingDeliveriesAreFoundByIndex(t *testing.T) {
	db := dbtest.MariaDB(t, inventory.Migrations)
	require.NoError(t, db.Connection(func(of *gorm.DB) error {
		one := of.Session(&gorm.Session{NewDB: true}) // each of its statements is a new one
		s := store.New(one)
		addDeliveries(t, s, "1", 1, 8000)
		require.NoError(t, one.Exec("UPDATE deliveries SET state = 'delivered' WHERE order_sn <= 7000 AND order_sn <> 2").Error)
		require.NoError(t, one.Exec("UPDATE deliveries SET state = 'failed' WHERE order_sn = 2").Error)
		require.NoError(t, one.Exec("UPDATE deliveries SET next_at = next_at + INTERVAL 1 HOUR WHERE order_sn <= 7900").Error)
		require.NoError(t, one.Exec("ANALYZE TABLE deliveries").Error)
		ctx, now := t.Context(), time.Now().Add(time.Minute)
		for name, read := range map[string]func() (n int, err error){
			"the oldest that waits": func() (int, error) {
				got, err := s.OldestWaiting(ctx, []string{"1", "2"})
				require.Equal(t, "7001", got["1"].OrderSN)
				return len(got), err
			},
			"the oldest that is due": func() (int, error) {
				got, err := s.OldestDue(ctx, []string{"1", "2"}, now)
				return len(got), err
			},
			"what is due": func() (int, error) {
				got, err := s.DueDeliveries(ctx, "1", 1)
				require.Equal(t, "7901", got[0].OrderSN)
				return len(got), err
			},
			"a list": func() (int, error) {
				got, err := s.Deliveries(ctx, "1", webhooks.Failed, core.Page{Limit: 1})
				require.Equal(t, "2", got[0].OrderSN)
				return len(got), err
			},
			"what has waited too long": func() (int, error) {
				return 1, s.ExpireDeliveries(ctx, "1", time.Now().Add(-time.Hour))
			},
		} {
			most := int64(20)
			if name == "what has waited too long" {
				most = 2200 // those of one call, and none twice
			}
			readsFew(t, one, name, most, func() error {
				n, err := read()
				require.Equal(t, 1, n, name)
				return err
			})
		}
		return nil
	}))
}
