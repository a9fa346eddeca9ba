package bench

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ordersn"
)

func TestSpanSeparatesCopies(t *testing.T) {
	at := time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
	first := ordersn.SN{Time: at, Worker: 255, Sequence: 63, Gene: 200}.String()
	last := ordersn.SN{Time: at.Add(1500 * time.Millisecond), Gene: 7}.String()
	span, err := spanOf([]string{last, first})
	require.NoError(t, err)
	require.EqualValues(t, 1501, span)

	sn, err := strconv.ParseInt(last, 10, 64)
	require.NoError(t, err)
	copied, err := ordersn.Parse(strconv.FormatInt(sn-2*span<<millisecondShift, 10))
	require.NoError(t, err)
	require.Equal(t, at.Add(1500*time.Millisecond-2*1501*time.Millisecond), copied.Time.UTC())
	require.EqualValues(t, 7, copied.Gene, "the copy is in the same table")

	_, err = spanOf(nil)
	require.Error(t, err)
	_, err = spanOf([]string{"x"})
	require.Error(t, err)
}

func TestCopyStatementKeepsColumnsThatItDoesNotName(t *testing.T) {
	orders := table{name: "orders", columns: []column{
		{name: "order_sn", kind: "bigint"},
		{name: "user_id", kind: "varchar"},
		{name: "activity_id", kind: "bigint"},
		{name: "state", kind: "varchar"},
		{name: "lines", kind: "text"},
		{name: "created_at", kind: "datetime"},
		{name: "closed_at", kind: "datetime"},
		{name: "changed_at", kind: "datetime", generated: true},
	}}
	require.Equal(t, "INSERT INTO `orders` (`order_sn`, `user_id`, `activity_id`, `state`, `lines`, `created_at`, "+
		"`closed_at`) SELECT STRAIGHT_JOIN t.order_sn - (k.top - n.n) * 8388608, CONCAT(t.user_id, '-', (k.top - n.n)), "+
		"-1 - (k.top - n.n) % 8, 'closed', t.`lines`, t.`created_at` - INTERVAL (k.top - n.n) * 2000 MICROSECOND, "+
		"t.created_at - INTERVAL (k.top - n.n) * 2000 MICROSECOND FROM (SELECT MAX(n) AS top FROM bench_copies) k "+
		"JOIN bench_copies n JOIN bench_templates o JOIN `orders` t ON t.order_sn = o.order_sn "+
		"WHERE n.n BETWEEN ? AND ?", orders.copyStatement(2, "closed"))
}
