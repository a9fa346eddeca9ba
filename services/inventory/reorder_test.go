package inventory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// ordersAndLoses makes a purchase whose order ends for this reason.
func (w *world) ordersAndLoses(a *core.Activity, user, reason string) {
	w.t.Helper()
	r := w.buy(a, user)
	w.land(r)
	closed := event(r, contract.OrderClosed)
	closed.Reason = reason
	w.follow(event(r, contract.OrderCreated), closed)
}

// reorderSale returns a published sale with this limit, or with the default for -1.
func (w *world) reorderSale(limit int64) *core.Activity {
	w.t.Helper()
	a := w.draft(1, 50)
	if limit >= 0 {
		_, err := w.merchants.PatchActivity(w.ctx, seller("m"), a.ID, merchants.ActivityPatch{ReorderLimit: &limit})
		require.NoError(w.t, err)
	}
	a, err := w.merchants.Publish(w.ctx, seller("m"), a.ID)
	require.NoError(w.t, err)
	return a
}

// One order more than the limit that is cancelled or expires ends the buyer's allowance, in this activity only, and also
// in a gate that was lost and rebuilt.
func TestReorderLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ set, limit int64 }{{-1, 2}, {1, 1}, {3, 3}} {
		a, other := w.reorderSale(c.set), w.reorderSale(c.set)
		require.Equal(w.t, c.limit, a.ReorderLimit)
		for i := range c.limit + 1 {
			w.ordersAndLoses(a, "ann", []string{ledger.ReasonCancelled, ledger.ReasonExpired}[i%2])
		}
		w.agree(a)
		for range 2 {
			_, outcome := w.reserve(a, "ann")
			require.Equal(w.t, stockgate.LimitReached, outcome)
			allowances, err := w.gate.Allowances(w.ctx, a.ID, []string{"ann", "bob"})
			require.NoError(w.t, err)
			require.True(w.t, allowances[0].Used)
			require.False(w.t, allowances[0].BarredUntil.IsZero())
			require.False(w.t, allowances[1].Used)

			require.NoError(w.t, w.rdb.Del(w.ctx, gateKey(a, "gate")).Err())
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
			w.agree(a)
		}
		w.buy(other, "ann")
		w.buy(a, "bob")
	}

	a := w.reorderSale(0)
	for range 5 {
		w.ordersAndLoses(a, "ann", ledger.ReasonCancelled)
	}
	w.buy(a, "ann")
}

// A gate with another reorder limit, or without one, is configured again.
func TestReorderLimitIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5)
	require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(a, "gate"), "reorders").Err())
	done, err := w.reconciler.Reconcile(w.ctx, operator("op"), a.ID)
	require.NoError(w.t, err)
	require.Len(w.t, done.Repairs, 1)
	audit, err := w.gate.Audit(w.ctx, a.ID)
	require.NoError(w.t, err)
	require.EqualValues(w.t, 2, audit.ReorderLimit)

	require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(a, "gate"), "reorders", "9").Err())
	done, err = w.reconciler.Reconcile(w.ctx, operator("op"), a.ID)
	require.NoError(w.t, err)
	require.Len(w.t, done.Repairs, 1)
}

func TestReorderLimitOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	id := s.draft(sku, 5)
	at := "/v1/merchant/activities/" + id
	require.Contains(t, string(s.do("GET", at, "").body), `"reorder_limit":2`)
	require.Contains(t, string(s.do("PATCH", at, `{"reorder_limit":0}`).body), `"reorder_limit":0`)
	require.Contains(t, string(s.do("PATCH", at, `{"reorder_limit":15}`).body), `"reorder_limit":15`)
	for _, wrong := range []string{"-1", "16"} {
		require.Equal(t, "reorder_limit", s.do("PATCH", at, `{"reorder_limit":`+wrong+`}`).field())
	}
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	require.Equal(t, "state_conflict", s.do("PATCH", at, `{"reorder_limit":1}`).code())
	require.Contains(t, string(s.do("GET", at, "").body), `"reorder_limit":15`)
}
