package trouble

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// ownedState is the state of a ledger row or an order, and its user.
type ownedState struct{ user, state string }

// rowsOf returns the ledger rows and the orders of a sale, by order_sn.
func rowsOf(t *testing.T, r *rig.Rig, sale shop.Sale) (ledger, orders map[string]ownedState) {
	t.Helper()
	ledger, orders = map[string]ownedState{}, map[string]ownedState{}
	into := func(all map[string]ownedState) func(rows *sql.Rows) {
		return func(rows *sql.Rows) {
			var sn string
			var o ownedState
			require.NoError(t, rows.Scan(&sn, &o.user, &o.state))
			all[sn] = o
		}
	}
	shop.Query(t, r.Dependencies.InventoryDSN, "SELECT order_sn, user_id, state FROM reservations WHERE activity_id = ?",
		into(ledger), sale.ActivityID)
	shop.Query(t, r.Dependencies.OrderDSN, "SELECT order_sn, user_id, state FROM orders WHERE activity_id = ?", into(orders), sale.ActivityID)
	return ledger, orders
}

// check requires that gate, ledger and orders hold the same for each purchase, that an answered purchase that does not
// exist is one of the lost entries, and that no unit was sold twice.
func (f *failover) check(
	ctx context.Context, t *testing.T, master *rig.RedisServer, lost map[string]bool,
) (r failoverResult) {
	t.Helper()
	gate := f.sale.GateEntries(ctx, t, master.Client())
	ledger, orders := rowsOf(t, f.rig, f.sale)
	var units int64
	for sn, row := range ledger {
		require.Contains(t, f.bids, sn, "a ledger row without a purchase")
		require.Equal(t, f.bids[sn].UserID, row.user, "ledger row %s", sn)
		if row.state == "reserved" || row.state == "sold" {
			units++
		}
	}
	for sn, o := range orders {
		require.Contains(t, []string{"reserved", "sold"}, ledger[sn].state, "order %s is %s", sn, o.state)
		require.Equal(t, ledger[sn].user, o.user, "order %s", sn)
	}
	require.LessOrEqual(t, units, f.sale.Stock, "units sold")
	r.lost = len(lost)
	refused := 0
	var took []time.Duration
	for sn, b := range f.bids {
		e, exists := gate[sn]
		want := ownedState{}
		order := ownedState{}
		switch {
		case !exists:
			require.True(t, !b.accepted || lost[sn], "purchase %s was answered with 202, and does not exist", sn)
			if b.accepted {
				require.True(t, b.answered.Before(f.promoted), "purchase %s was answered by the new master, and does not exist", sn)
				r.absent++
			}
		case e.Status == stockgate.StatusCreated:
			want, order = ownedState{b.UserID, "reserved"}, ownedState{b.UserID, "pending"}
		case e.Status == stockgate.StatusPaid:
			want, order = ownedState{b.UserID, "sold"}, ownedState{b.UserID, "paid"}
		case e.Status == stockgate.StatusFailed:
			require.Equal(t, "sold_out", e.Reason, "the reason for which purchase %s failed", sn)
			want = ownedState{b.UserID, "rejected"}
			r.rejected++
		default:
			require.Fail(t, "purchase "+sn+" is "+string(e.Status)+" in the gate")
		}
		require.Equal(t, want, ledger[sn], "ledger row of purchase %s", sn)
		require.Equal(t, order, orders[sn], "order of purchase %s", sn)
		require.True(t, !b.paid || order.state == "paid", "order %s is paid", sn)
		if !b.accepted {
			refused++
		}
		if lost[sn] && exists && e.ReservedAt.IsZero() {
			r.adopted++
		}
		if !b.accepted {
			continue
		}
		after := b.answered.Sub(f.killed)
		switch {
		case !b.answered.Before(f.promoted):
			if r.available == 0 || after < r.available {
				r.available = after
			}
		case lost[sn]:
			r.before++
			r.answered++
		default:
			r.before++
		}
		if after < 0 && b.due.After(f.began.Add(time.Second)) {
			took = append(took, b.answered.Sub(b.due))
		}
	}
	for sn := range gate {
		require.Contains(t, f.bids, sn, "an entry without a purchase")
	}
	require.Positive(t, refused, "buyers who were refused as sold out")
	require.Equal(t, f.sale.Stock, units, "buyers were refused, so every unit is sold")
	slices.Sort(took)
	r.p50, r.p99 = took[len(took)/2], took[len(took)*99/100]
	r.rate = float64(len(took)) / (f.killed.Sub(f.began) - time.Second).Seconds()
	return r
}

// again posts the paths of the purchases that no longer exist. Each starts anew under its order_sn, or is sold out.
func (f *failover) again(ctx context.Context, t *testing.T, master *rig.RedisServer) {
	t.Helper()
	gate := f.sale.GateEntries(ctx, t, master.Client())
	accepted, soldOut := 0, 0
	for sn, b := range f.bids {
		if _, ok := gate[sn]; !b.accepted || ok {
			continue
		}
		_, err := b.Reservation(ctx, f.sale.ActivityID, sn)
		require.Equal(t, contract.CodeNotFound, client.CodeOf(err), "the result of a purchase that no longer exists")
		v, err := b.Reserve(ctx, f.sale.ActivityID, b.path.Path, f.sale.Lines())
		if err == nil {
			require.Equal(t, sn, v.OrderSN)
			accepted++
			continue
		}
		require.Equal(t, contract.CodeSoldOut, client.CodeOf(err), "a purchase that no longer exists is posted again: %v", err)
		soldOut++
	}
	t.Logf("purchases that no longer existed, posted again: %d accepted, %d sold out", accepted, soldOut)
}
