package shop

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/test/rig"
)

// booksAgree reads the databases and the gate of a sale all of whose purchases have ended: they hold the same for each
// purchase, and nothing is in flight.
func (s *Buyers) booksAgree(t *testing.T, r *rig.Rig, accepted map[string]*bought) {
	t.Helper()
	s.ledgerBooks(t, r.Dependencies.InventoryDSN, accepted)
	s.orderBooks(t, r.Dependencies.OrderDSN, accepted)
	s.gateBooks(t, r, accepted)
}

func (s *Buyers) ledgerBooks(t *testing.T, dsn string, accepted map[string]*bought) {
	t.Helper()
	want := map[string]string{"paid": "sold", "closed": "released"}
	states := map[string]int64{}
	found := 0
	const rowsOfSale = "SELECT order_sn, user_id, state, republish_at IS NULL FROM reservations WHERE activity_id = ?"
	Query(t, dsn, rowsOfSale, func(rows *sql.Rows) {
		var sn, user, state string
		var quiet bool
		require.NoError(t, rows.Scan(&sn, &user, &state, &quiet))
		b := accepted[sn]
		require.NotNil(t, b, "ledger row %s belongs to no accepted purchase", sn)
		require.Equal(t, b.userID, user, "ledger row %s", sn)
		require.Equal(t, want[b.order.State], state, "ledger row %s", sn)
		require.True(t, quiet, "ledger row %s still waits for its order", sn)
		found++
		states[state]++
	}, s.Sale.ActivityID)
	require.Equal(t, len(accepted), found, "ledger rows")
	Query(t, dsn, "SELECT total, available, reserved, sold FROM stocks WHERE activity_id = ?", func(rows *sql.Rows) {
		var total, available, reserved, sold int64
		require.NoError(t, rows.Scan(&total, &available, &reserved, &sold))
		require.Equal(t, []int64{s.Sale.Stock, s.Sale.Stock - states["sold"], 0, states["sold"]},
			[]int64{total, available, reserved, sold},
			"total, available, reserved and sold")
	}, s.Sale.ActivityID)
	holders := map[string]bool{}
	for _, b := range accepted {
		if b.order.State == "paid" {
			holders[b.userID] = true
		}
	}
	found = 0
	Query(t, dsn, "SELECT user_id, held FROM allowances WHERE activity_id = ? AND held <> 0", func(rows *sql.Rows) {
		var user string
		var held int64
		require.NoError(t, rows.Scan(&user, &held))
		require.True(t, holders[user], "user %s has paid for no order and uses up an allowance", user)
		require.EqualValues(t, 1, held, "allowance of user %s", user)
		found++
	}, s.Sale.ActivityID)
	require.Len(t, holders, found, "allowances in use")
	require.Zero(t, Count(t, dsn, "SELECT COUNT(*) FROM dead_letters"), "dead letters")
}

func (s *Buyers) orderBooks(t *testing.T, dsn string, accepted map[string]*bought) {
	t.Helper()
	units := map[string]int64{}
	Query(t, dsn, "SELECT order_sn, line_items FROM orders WHERE tombstone = 0", func(rows *sql.Rows) {
		var sn, lines string
		require.NoError(t, rows.Scan(&sn, &lines))
		if accepted[sn] == nil {
			return
		}
		for line := range strings.SplitSeq(lines, ",") { // sku_id:qty:price
			fields := strings.Split(line, ":")
			require.Len(t, fields, 3, "lines of order %s", sn)
			require.Equal(t, s.Sale.SKUID, fields[0], "item of order %s", sn)
			qty, err := strconv.ParseInt(fields[1], 10, 64)
			require.NoError(t, err)
			units[sn] += qty
		}
	})
	for sn := range accepted {
		require.EqualValues(t, 1, units[sn], "units of order %s", sn)
	}
	payments, succeeded := map[string]string{}, map[string]bool{}
	Query(t, dsn, "SELECT payment_id, order_sn, user_id, state, amount, paid_amount FROM payments", func(rows *sql.Rows) {
		var id, sn, user, state string
		var amount, paidAmount int64
		require.NoError(t, rows.Scan(&id, &sn, &user, &state, &amount, &paidAmount))
		b := accepted[sn]
		if b == nil {
			return
		}
		require.Empty(t, payments[sn], "order %s has two payments, the key of both is the same", sn)
		payments[sn] = id
		require.Equal(t, b.userID, user, "payment of order %s", sn)
		require.Equal(t, b.order.Amount, amount, "amount of the payment of order %s", sn)
		if state == "succeeded" {
			succeeded[sn] = true
			require.Equal(t, amount, paidAmount, "what was paid for order %s", sn)
		}
	})
	for sn, b := range accepted {
		require.Equal(t, b.paidFor, succeeded[sn], "order %s: the result of the payment call, and the payment row", sn)
		require.True(t, b.order.State != "paid" || b.paidFor, "order %s is paid and its buyer did not pay", sn)
	}
	const paid = "SELECT order_sn, COALESCE(paid_by, '') FROM orders WHERE activity_id = ? AND state = 'paid'"
	Query(t, dsn, paid, func(rows *sql.Rows) {
		var sn, by string
		require.NoError(t, rows.Scan(&sn, &by))
		require.Equal(t, payments[sn], by, "the payment that made order %s paid", sn)
	}, s.Sale.ActivityID)
	Query(t, dsn, "SELECT order_sn FROM orders WHERE tombstone <> 0", func(rows *sql.Rows) {
		var sn string
		require.NoError(t, rows.Scan(&sn))
		require.Fail(t, "tombstone", "order_sn %s", sn)
	})
	require.Eventually(t, func() bool { return Count(t, dsn, "SELECT COUNT(*) FROM outbox") == 0 }, 2*time.Minute,
		100*time.Millisecond,
		"the outbox is not emptied")
}

// gateBooks compares the gate's entries with the orders, one by one.
func (s *Buyers) gateBooks(t *testing.T, r *rig.Rig, accepted map[string]*bought) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	entries := s.Sale.GateEntries(ctx, t, r.Redis(t))
	for sn, e := range entries {
		b := accepted[sn]
		require.NotNil(t, b, "the gate holds %s, which was accepted for no buyer", sn)
		require.Equal(t, b.userID, e.UserID, "buyer of %s at the gate", sn)
		require.Equal(t, b.status, client.Status(e.Status), "state of %s at the gate", sn)
		require.Equal(t, b.order.State, string(e.Status), "state of %s at the gate", sn)
	}
	require.Len(t, entries, len(accepted), "entries of the gate")
}
