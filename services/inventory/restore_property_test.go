package inventory

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// In any history in whose middle a backup was made, a restore of inventory, of order or of both heals: the import ends,
// gate and database agree, every purchase has landed or ended, and each order is honoured, closed or refunded.
func TestAnyRestoreHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.backup()
	rapid.Check(t, func(r *rapid.T) {
		w.faults.heal()
		require.NoError(r, w.rdb.FlushAll(w.ctx).Err())
		w.shift = 0
		w.restore(empty)
		for _, topic := range contract.Topics() {
			w.broker.take(topic)
		}
		w.orders.mu.Lock()
		clear(w.orders.items)
		clear(w.orders.state)
		w.orders.refunded = nil
		w.orders.mu.Unlock()
		h := &restoreHistory{world: w, a: w.sale(rapid.Int64Range(1, 2).Draw(r, "limit"), rapid.Int64Range(2, 8).Draw(r, "stock"))}
		h.feed = newFeedClient(w)
		for range rapid.IntRange(0, 20).Draw(r, "before") {
			h.act(r)
		}
		database, orders := w.backup(), h.copyOrders()
		for range rapid.IntRange(0, 20).Draw(r, "after") {
			h.act(r)
		}
		lost := rapid.SampledFrom([]string{"inventory", "order", "both"}).Draw(r, "restored")
		if lost != "order" {
			w.restore(database)
		}
		if lost != "inventory" {
			h.restoreOrders(orders)
		}
		if rapid.Bool().Draw(r, "deductions lost") {
			w.broker.take(contract.TopicDeductions)
		}
		w.newEpoch()
		h.finish(r)
	})
}

type restoreHistory struct {
	*world
	a    *core.Activity
	made []contract.Reservation
	keys int
	feed *feedClient // follows the feed all the time
}

func (h *restoreHistory) act(r *rapid.T) {
	if rapid.IntRange(0, 3).Draw(r, "feed") == 0 {
		h.feed.poll()
	}
	switch rapid.SampledFrom([]string{"buy", "buy", "land", "land", "order", "order", "adjust", "create"}).Draw(r, "act") {
	case "buy":
		it, outcome := h.reserve(h.a, fmt.Sprint("u", rapid.IntRange(1, 6).Draw(r, "user")))
		if outcome == stockgate.Accepted {
			h.made = append(h.made, it)
		}
	case "land":
		_ = h.relayAndLand(h.a.ID)
	case "create":
		_ = h.ordersFollow()
	case "order":
		if len(h.made) == 0 {
			return
		}
		it := h.made[rapid.IntRange(0, len(h.made)-1).Draw(r, "which")]
		if h.orders.of(it.OrderSN) != "pending" {
			return
		}
		to := rapid.SampledFrom([]string{"paid", "closed"}).Draw(r, "to")
		h.orders.set(to, it.OrderSN)
		if rapid.Bool().Draw(r, "event is late") {
			return
		}
		kind := contract.OrderPaid
		if to == "closed" {
			kind = contract.OrderClosed
		}
		_ = h.consumer.OrderEvents(h.ctx, message(r, contract.TopicOrderEvents, event(it, kind)))
	case "adjust":
		h.keys++
		delta := rapid.SampledFrom([]int64{-2, -1, 1, 2}).Draw(r, "delta")
		_, _ = h.merchants.AdjustStock(h.ctx, seller("m"), merchants.AdjustmentRequest{
			ActivityID: h.a.ID, SKUID: h.a.Items[0].SKUID, Delta: delta, Reason: "r",
			Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: fmt.Sprint("k", h.keys)},
		})
	}
}

type ordersCopy struct {
	state map[string]string
	items map[string]contract.Reservation
}

func (h *restoreHistory) copyOrders() ordersCopy {
	h.orders.mu.Lock()
	defer h.orders.mu.Unlock()
	return ordersCopy{maps.Clone(h.orders.state), maps.Clone(h.orders.items)}
}

func (h *restoreHistory) restoreOrders(c ordersCopy) {
	h.orders.mu.Lock()
	defer h.orders.mu.Unlock()
	h.orders.state, h.orders.items = c.state, c.items
}

// finish imports, lets every message and event arrive, and closes what is not paid.
func (h *restoreHistory) finish(r *rapid.T) {
	read := map[string]stockgate.Status{}
	h.noteLostOrders()
	for n := 0; ; n++ {
		if err := h.importRound(); !errors.Is(err, core.ErrImporting) { // an event before its row: it is redelivered
			require.NoError(r, err)
		}
		h.neverFallsBelow(r, read)
		if !h.importing() {
			break
		}
		require.Less(r, n, 60, "the import does not end: %+v", h.progress())
	}
	require.NoError(r, h.gates.EnsureGates(h.ctx))
	for range 3 {
		_ = h.relayAndLand(h.a.ID)
		require.NoError(r, h.ordersFollow())
	}
	h.tellAll(r)
	var due []string
	for _, it := range h.made {
		if h.orders.of(it.OrderSN) != "" {
			due = append(due, it.OrderSN)
		}
	}
	if len(due) > 0 { // the deadlines pass
		closing := contract.OrderClose{OrderSNs: due, ActivityID: h.a.ID, DueAt: time.Now()}
		require.NoError(r, h.consumer.OrderClose(h.ctx, message(r, contract.TopicOrderClose, closing)))
	}
	for range 4 {
		h.settles()
		h.reconcile(h.a)
	}
	require.False(r, h.importing())
	h.agree(h.a)
	h.whole(r, h.a)
	h.feed.poll()
	for _, it := range h.made {
		e := h.entry(h.a, it.OrderSN)
		state := h.orders.of(it.OrderSN)
		rows, err := h.parts.Store.Reservations(h.ctx, []string{it.OrderSN})
		require.NoError(r, err)
		row, known := rows[it.OrderSN]
		if !known { // it had ended before the restore, and its order too
			require.Contains(r, []stockgate.Status{stockgate.StatusFailed, stockgate.StatusClosed}, e.Status, "%s, %s", it.OrderSN, state)
			require.NotContains(r, []string{"pending", "paid"}, state, "%s", it.OrderSN)
			continue
		}
		require.Equal(r, row, h.feed.known[it.OrderSN])
		switch state {
		case "paid":
			require.Equal(r, stockgate.StatusPaid, e.Status, "%+v", row)
			require.Equal(r, ledger.StateSold, row.State)
		case "closed", "refunded", "tombstone", "": // "": refused by the ledger, or order has lost an order that ended
			require.False(r, row.Holds(), "%s: %+v", state, row)
		default:
			r.Fatalf("order_sn %s is %s: %+v", it.OrderSN, state, row)
		}
	}
}

// noteLostOrders notes whose buyers have read of an order that the order service has lost. Their entries end as closed,
// although a row that never had its order ends as failed.
func (h *restoreHistory) noteLostOrders() {
	for _, it := range h.made {
		if h.orders.of(it.OrderSN) != "" {
			continue
		}
		switch h.entry(h.a, it.OrderSN).Status {
		case stockgate.StatusCreated, stockgate.StatusPaid, stockgate.StatusClosed:
			h.shown[it.OrderSN] = "x"
		}
	}
}

// tellAll delivers the event of each order's present state.
func (h *restoreHistory) tellAll(r *rapid.T) {
	for _, it := range h.made {
		var kind contract.OrderEventType
		switch h.orders.of(it.OrderSN) {
		case "paid":
			kind = contract.OrderPaid
		case "closed":
			kind = contract.OrderClosed
		default:
			continue
		}
		require.NoError(r, h.consumer.OrderEvents(h.ctx, message(r, contract.TopicOrderEvents, event(it, kind))))
	}
}

func (h *restoreHistory) neverFallsBelow(r *rapid.T, read map[string]stockgate.Status) {
	rank := map[stockgate.Status]int{
		stockgate.StatusQueued: 1, stockgate.StatusCreated: 2, stockgate.StatusPaid: 3, stockgate.StatusClosed: 3, stockgate.StatusFailed: 3,
	}
	for _, it := range h.made {
		s := h.entry(h.a, it.OrderSN).Status
		require.GreaterOrEqual(r, rank[s], rank[read[it.OrderSN]], "order_sn %s reads %s after %s", it.OrderSN, s, read[it.OrderSN])
		read[it.OrderSN] = s
	}
}
