package inventory

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// Such an entry cannot land again, and no repair may write it. It is removed, and does not block other repairs.
func TestAnInvalidLandedEntryIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(3, 10)
	sku := a.Items[0].SKUID
	lost, unknown := w.buy(a, "u1"), w.buy(a, "u2")
	for _, says := range []string{"u 1|" + sku + ":1", "u1|" + sku + ":1," + sku + ":1"} {
		w.land(unknown)
		w.settles()
		require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(a, "held"), unknown.OrderSN).Err())
		require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(a, "held"), lost.OrderSN, "l|"+says+"||||||").Err())
		incidents.raised = nil
		r := w.reconcile(a)
		require.Subset(w.t, kinds(r), []string{"adopted", "removed"})
		require.Empty(w.t, r.Differences)
		require.Equal(w.t, []string{"gate entry cannot be read"}, incidents.raised)
		w.agree(a)
		w.whole(w.t, a)
	}
}

// No script writes such an order_sn, and the ledger cannot hold it. It does not block repairs of the others.
func TestAnEntryWithoutAValidOrderSNIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	w.settles()
	held := gateKey(a, "held")
	entry := w.rdb.HGet(w.ctx, held, r.OrderSN).Val()
	require.NoError(w.t, w.rdb.HSet(w.ctx, held, "-5", entry, "007", entry, "rubbish", entry).Err())
	require.NoError(w.t, w.rdb.HDel(w.ctx, held, r.OrderSN).Err())
	require.Contains(w.t, kinds(w.reconcile(a)), "adopted")
	require.NoError(w.t, w.rdb.HDel(w.ctx, held, "-5", "007", "rubbish").Err())
	w.agree(a)
	w.whole(w.t, a)
}

// decider changes the activity just before the gate gets an older version of it.
type decider struct {
	reconcile.Repairs
	decide func()
}

func (g *decider) Configure(ctx context.Context, activityID string, c core.GateConfig) error {
	if decide := g.decide; decide != nil {
		g.decide = nil
		decide()
	}
	return g.Repairs.Configure(ctx, activityID, c)
}

// A gate that gets a later version meanwhile needs no repair with an older one. Its other errors are repaired.
func TestALaterDecisionIsNotOverridden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := &decider{}
	w.parts = w.parts.with(func(p *ports) { gate.Repairs, p.repairs = p.repairs, gate })
	w.restart()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	w.settles()
	require.NoError(w.t, w.rdb.HDel(w.ctx, gateKey(a, "held"), r.OrderSN).Err())
	require.NoError(w.t, w.rdb.HSet(w.ctx, gateKey(a, "gate"), "limit", "7").Err())
	gate.decide = func() {
		_, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
		require.NoError(w.t, err)
	}
	require.Contains(w.t, kinds(w.reconcile(a)), "adopted")
	require.Equal(w.t, "paused", w.rdb.HGet(w.ctx, gateKey(a, "gate"), "state").Val())
	require.Equal(w.t, "1", w.rdb.HGet(w.ctx, gateKey(a, "gate"), "limit").Val())
	w.agree(a)
}

// An unreadable ledger row raises an incident, as nothing can be compared with it.
func TestAnUnreadableLedgerRowIsAnIncident(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	a := w.sale(1, 10)
	r := w.buy(a, "u1")
	w.land(r)
	w.settles()
	require.NoError(w.t, w.db.Exec("UPDATE reservations SET line_items = 'rubbish' WHERE order_sn = ?", r.OrderSN).Error)
	require.Len(w.t, w.reconcile(a).Differences, 1)
	require.Len(w.t, incidents.raised, 1)
}
