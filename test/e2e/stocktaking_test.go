package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/test/e2e/rig"
)

// settle takes stock when the last purchase has ended.
func (s *shop) settle(t *testing.T, r *rig.Rig) {
	t.Helper()
	var paid, closed, cancelled, lapsed, refunded int64
	var late spread
	accepted, users := map[string]*bought{}, map[string]bool{}
	for _, b := range s.bought {
		require.Nil(t, accepted[b.orderSN], "order_sn %s was given twice", b.orderSN)
		require.False(t, users[b.userID], "buyer %s has two orders", b.userID)
		accepted[b.orderSN], users[b.userID] = b, true
		require.Equal(t, b.userID, b.order.UserID)
		switch b.order.State {
		case "paid":
			paid++
			require.True(t, b.pays, "order %s is paid and nobody paid it", b.orderSN)
		case "closed":
			closed++
			if b.cancelled {
				cancelled++
				require.Equal(t, "cancelled", b.order.CloseReason)
				break
			}
			require.Equal(t, "expired", b.order.CloseReason)
			after := b.order.ClosedAt.Sub(b.order.ExpiresAt)
			require.GreaterOrEqual(t, after, time.Duration(0), "order %s was closed early", b.orderSN)
			late.add(after)
			if b.pays {
				lapsed++
			}
			if b.paidFor {
				refunded++
			}
		default:
			t.Errorf("order %s is %s", b.orderSN, b.order.State)
		}
	}
	t.Logf("%d buyers: %d accepted; %d paid, %d closed, %d of these given back by the buyer; %d wanted to pay and came too late, %d of them with money to get back",
		s.came, len(s.bought), paid, closed, cancelled, lapsed, refunded)
	t.Logf("told sold out %d times, %d of these for good", s.refused, s.refusedForGood)
	t.Logf("from the button to the answer: %s", &s.answers)
	t.Logf("from there to the order:       %s", &s.landings)
	t.Logf("paying:                        %s", &s.paying)
	t.Logf("closed after the deadline:     %s", &late)
	require.Greater(t, len(s.bought), int(s.sale.Stock/2), "too little was bought to prove anything")
	require.Len(t, s.bought, s.came, "nobody went without a piece, as more came back than was asked for")

	s.sale.stockBecomes(t, s.sale.Stock-paid, 0, paid, 3*time.Minute)
	s.ledgerIs(t, map[string]int64{"sold": paid, "released": closed}, accepted)
	orderRows(t, r.Parts.OrderDSN, s.sale.ActivityID, accepted)
	require.Equal(t, refunded, count(t, r.Parts.OrderDSN, "SELECT COUNT(*) FROM refunds"), "money that paid for nothing goes back")
	s.booksAgree(t, r, accepted)

	// What came back is bought by others, to the last piece.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left := s.sale.Stock - paid
	buyers, err := purchase.NewBuyers(ctx, r.Client, int(left)+20)
	require.NoError(t, err)
	won, _, lost := s.sale.rush(t, buyers, 32)
	require.Len(t, won, int(left))
	require.Len(t, lost, 20)
	s.sale.stockBecomes(t, 0, left, paid, 3*time.Minute)
}

// ledgerIs demands exactly one row for each accepted purchase, and no other.
func (s *shop) ledgerIs(t *testing.T, want map[string]int64, accepted map[string]*bought) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := s.sale.Merchant.Holdings(ctx, s.sale.ActivityID)
	require.NoError(t, err)
	states, seen := map[string]int64{"sold": 0, "released": 0}, map[string]bool{}
	for _, row := range rows {
		states[row.State]++
		require.False(t, seen[row.OrderSN], "order_sn %s is in the ledger twice", row.OrderSN)
		seen[row.OrderSN] = true
		require.NotNil(t, accepted[row.OrderSN], "order_sn %s is in the ledger and no buyer was told so", row.OrderSN)
		require.Equal(t, accepted[row.OrderSN].userID, row.UserID)
	}
	require.Equal(t, want, states)
}

// orderRows demands the same of the order service's tables.
func orderRows(t *testing.T, dsn, activityID string, accepted map[string]*bought) {
	t.Helper()
	found := 0
	for shard := range 16 {
		query(t, dsn, fmt.Sprintf("SELECT order_sn, user_id, state FROM orders_%02d WHERE activity_id = ? AND tombstone = 0", shard),
			func(rows *sql.Rows) {
				var sn, user, state string
				require.NoError(t, rows.Scan(&sn, &user, &state))
				found++
				b := accepted[sn]
				require.NotNil(t, b, "order %s belongs to no accepted purchase", sn)
				require.Equal(t, b.userID, user)
				require.Equal(t, b.order.State, state)
			}, activityID)
	}
	require.Equal(t, len(accepted), found)
}

func query(t *testing.T, dsn, text string, each func(*sql.Rows), args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, text, args...)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		each(rows)
	}
	require.NoError(t, rows.Err())
}
