package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
	"flashsale.internal/services/order/internal/store"
)

// Statements on order_sns read the primary key, in the partitions of these months only.
func TestStatementsOnOrderSNsReadOnePartition(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	s := store.New(db, telemetry.Discard(t), nil)
	now := time.Now().UTC()
	for batch := range 16 { // enough rows for statistics to matter
		var orders []core.Order
		for i := range 256 {
			n := 256*batch + i
			o := newOrder(fmt.Sprintf("u%d", n), 0)
			sn := ordersn.SN{Time: now.Add(time.Duration(n) * time.Millisecond), Gene: ordersn.Gene(o.UserID)}
			o.OrderSN = sn.String()
			orders = append(orders, o)
		}
		do(t, s, func(tx core.Tx) { require.NoError(t, tx.InsertOrders(orders)) })
	}
	require.NoError(t, db.Exec("ANALYZE TABLE orders").Error)
	var sns []string
	require.NoError(t, db.Table("orders").Order("order_sn").Limit(256).Pluck("order_sn", &sns).Error)
	month := now.Format("p200601")
	list := strings.Join(sns, ",")
	for _, tt := range []struct{ statement, access string }{
		{"SELECT * FROM orders WHERE order_sn = " + sns[0], "const"},
		{"SELECT * FROM orders WHERE order_sn IN (" + list + ") FOR UPDATE", "range"},
		{"UPDATE orders SET state = 'closed' WHERE order_sn IN (" + list + ") AND state = 'pending' AND tombstone = 0", "range"},
		{"SELECT * FROM orders WHERE order_sn > " + sns[0] + " AND order_sn <= " + sns[200], "range"},
	} {
		var plan []map[string]any
		require.NoError(t, db.Raw("EXPLAIN PARTITIONS "+tt.statement).Scan(&plan).Error)
		require.Len(t, plan, 1)
		require.Equal(t, tt.access, fmt.Sprint(plan[0]["type"]), tt.statement[:50])
		require.Equal(t, "PRIMARY", fmt.Sprint(plan[0]["key"]), tt.statement[:50])
		require.Equal(t, month, fmt.Sprint(plan[0]["partitions"]), tt.statement[:50])
	}
	var plan []map[string]any
	require.NoError(t, db.Raw("EXPLAIN SELECT * FROM orders WHERE user_id = 'u1' AND tombstone = 0 "+
		"ORDER BY created_at DESC, order_sn DESC LIMIT 20").Scan(&plan).Error)
	require.Equal(t, "by_user", fmt.Sprint(plan[0]["key"]), "lists of a user")
}
