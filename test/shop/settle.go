package shop

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/test/rig"
)

// Settle checks a sale that was sold out and whose purchases have all ended, as Check does, and that other buyers get
// every unit that was restored and not one more.
func (s *Buyers) Settle(t *testing.T, r *rig.Rig) {
	t.Helper()
	require.True(t, s.soldOut, "every unit was sold to a buyer")
	require.GreaterOrEqual(t, len(s.bought), int(s.Sale.Stock))
	require.Zero(t, s.refusedForGood, "refused as sold out for good, and a part of the stock was restored")
	paid := s.Check(t, r)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left := s.Sale.Stock - paid
	buyers, err := purchase.NewBuyers(ctx, r.Client, int(left)+20)
	require.NoError(t, err)
	won, _, lost := s.Sale.BuyAll(t, buyers, 32)
	require.Len(t, won, int(left))
	require.Len(t, lost, 20)
	s.Sale.StockBecomes(t, 0, left, paid, 3*time.Minute)
}

// Check requires of a sale whose purchases have all ended that every buyer got a unit, and that the results of buyers,
// the stock, the ledger, the orders, the payments, the refunds and the gate hold the same. It returns the number of
// paid orders.
func (s *Buyers) Check(t *testing.T, r *rig.Rig) (paid int64) {
	t.Helper()
	var closed, cancelled, lateToPay, refunded int64
	var late []time.Duration
	accepted, users := map[string]*bought{}, map[string]bool{}
	for _, b := range s.bought {
		require.Nil(t, accepted[b.orderSN], "order_sn %s was issued twice", b.orderSN)
		require.False(t, users[b.userID], "buyer %s has two orders", b.userID)
		accepted[b.orderSN], users[b.userID] = b, true
		require.Equal(t, b.userID, b.order.UserID)
		switch b.order.State {
		case "paid":
			paid++
			require.True(t, b.pays, "order %s is paid and its buyer did not pay", b.orderSN)
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
			late = append(late, after)
			if b.pays {
				lateToPay++
			}
			if b.paidFor {
				refunded++
			}
		default:
			t.Errorf("order %s is %s", b.orderSN, b.order.State)
		}
	}
	t.Logf("%d buyers: %d accepted; %d paid, %d closed, %d of these cancelled by the buyer; "+
		"%d expired before their buyer could pay, %d of these were refunded; "+
		"%d paths expired before they could be used",
		s.came, len(s.bought), paid, closed, cancelled, lateToPay, refunded, s.pathsExpired)
	t.Logf("refused as sold out %d times, %d of these for good", s.refused, s.refusedForGood)
	t.Logf("from the first call to the acceptance: %s", load.Summarize(s.acceptances))
	t.Logf("from there to the order:              %s", load.Summarize(s.landings))
	t.Logf("paying:                               %s", load.Summarize(s.paying))
	t.Logf("closed after the deadline:            %s", load.Summarize(late))
	require.Len(t, s.bought, s.came, "every buyer got a unit")

	s.Sale.StockBecomes(t, s.Sale.Stock-paid, 0, paid, 3*time.Minute)
	s.ledgerIs(t, map[string]int64{"sold": paid, "released": closed}, accepted)
	orderRows(t, r.Dependencies.OrderDSN, s.Sale.ActivityID, accepted)
	require.Equal(t, refunded, Count(t, r.Dependencies.OrderDSN, "SELECT COUNT(*) FROM refunds"),
		"payments for closed orders are refunded")
	s.booksAgree(t, r, accepted)
	return paid
}

// ledgerIs requires exactly one row for each accepted purchase, and no other.
func (s *Buyers) ledgerIs(t *testing.T, want map[string]int64, accepted map[string]*bought) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := s.Sale.Merchant.Ledger(ctx, s.Sale.ActivityID)
	require.NoError(t, err)
	states, seen := map[string]int64{"sold": 0, "released": 0}, map[string]bool{}
	for _, row := range rows {
		states[row.State]++
		require.False(t, seen[row.OrderSN], "order_sn %s is in the ledger twice", row.OrderSN)
		seen[row.OrderSN] = true
		require.NotNil(t, accepted[row.OrderSN], "order_sn %s is in the ledger and was accepted for no buyer",
			row.OrderSN)
		require.Equal(t, accepted[row.OrderSN].userID, row.UserID)
	}
	require.Equal(t, want, states)
}

// orderRows requires the same of the order service's tables.
func orderRows(t *testing.T, dsn, activityID string, accepted map[string]*bought) {
	t.Helper()
	found := 0
	Query(t, dsn, "SELECT order_sn, user_id, state FROM orders WHERE activity_id = ?", func(rows *sql.Rows) {
		var sn, user, state string
		require.NoError(t, rows.Scan(&sn, &user, &state))
		found++
		b := accepted[sn]
		require.NotNil(t, b, "order %s belongs to no accepted purchase", sn)
		require.Equal(t, b.userID, user)
		require.Equal(t, b.order.State, state)
	}, activityID)
	require.Equal(t, len(accepted), found)
}
