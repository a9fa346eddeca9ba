package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// In any history of purchases, orders, adjustments and faults, nothing is sold twice, nothing is lost, no buyer gets
// more than the limit, and at the end gate and database agree.
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(r *rapid.T) {
		w.faults.heal()
		limit := rapid.Int64Range(1, 3).Draw(r, "limit")
		a := w.sale(limit, rapid.Int64Range(0, 6).Draw(r, "stock")+1, 3)
		h := &history{world: w, a: a, limit: limit}
		r.Repeat(map[string]func(*rapid.T){
			"buy":        h.buySome,
			"deliver":    h.deliver,
			"event":      h.orderStep,
			"adjust":     h.adjust,
			"lose gate":  h.loseGate,
			"keep":       func(*rapid.T) { _ = w.gates.EnsureGates(w.ctx); w.faults.heal() },
			"due":        h.due,
			"fault next": func(r *rapid.T) { w.faults.kill(rapid.IntRange(1, 4).Draw(r, "step"), rapid.Bool().Draw(r, "after")) },
			"":           func(*rapid.T) { w.sound(a) },
		})
		h.finish(r)
	})
}

type history struct {
	*world
	a        *core.Activity
	limit    int64
	made     []contract.Reservation
	messages []bus.Delivery // of every kind, each may come any number of times
}

func (h *history) buySome(r *rapid.T) {
	var items []contract.Reservation
	for range rapid.IntRange(1, 4).Draw(r, "buyers") {
		line := contract.Line{SKUID: h.a.Items[rapid.IntRange(0, 1).Draw(r, "sku")].SKUID, Qty: rapid.Int64Range(1, 2).Draw(r, "qty")}
		it := contract.Reservation{
			OrderSN: newSN(), UserID: fmt.Sprint("u", rapid.IntRange(1, 4).Draw(r, "user")), ActivityID: h.a.ID, Lines: []contract.Line{line},
			ReservedAt: time.Now().UTC().Truncate(time.Millisecond),
		}
		verdicts, err := h.gate.Reserve(h.ctx, h.a.ID, []stockgate.Request{{OrderSN: it.OrderSN, UserID: it.UserID, Lines: it.Lines}})
		if err == nil && verdicts[0].Outcome == stockgate.Accepted {
			items = append(items, it)
		}
	}
	if len(items) > 0 {
		h.made = append(h.made, items...)
		h.messages = append(h.messages, message(r, contract.TopicReservations, items...))
	}
}

// deliver delivers any message that was ever sent. After an error it can be redelivered later, as it stays in the
// list.
func (h *history) deliver(r *rapid.T) {
	if len(h.messages) == 0 {
		r.Skip()
	}
	_ = h.handle(h.messages[rapid.IntRange(0, len(h.messages)-1).Draw(r, "message")])
	h.faults.heal()
}

func (h *history) handle(m bus.Delivery) error {
	switch m.Topic {
	case contract.TopicReservations:
		return h.consumer.Reservations(h.ctx, m)
	case contract.TopicOrderEvents:
		return h.consumer.OrderEvents(h.ctx, m)
	}
	return h.consumer.OrderClose(h.ctx, m)
}

// orderStep takes one valid step of order: it creates an order only for a landed reservation.
func (h *history) orderStep(r *rapid.T) {
	if len(h.made) == 0 {
		r.Skip()
	}
	it := h.made[rapid.IntRange(0, len(h.made)-1).Draw(r, "order")]
	rows, err := h.parts.Store.Reservations(h.ctx, []string{it.OrderSN})
	require.NoError(r, err)
	if row, ok := rows[it.OrderSN]; !ok || row.State == ledger.StateRejected {
		r.Skip()
	}
	next := ""
	switch h.orders.of(it.OrderSN) {
	case "":
		next = "pending"
	case "pending":
		next = rapid.SampledFrom([]string{"paid", "closed"}).Draw(r, "step")
	default:
		r.Skip()
	}
	h.orders.set(next, it.OrderSN)
	kind := map[string]contract.OrderEventType{"pending": contract.OrderCreated, "paid": contract.OrderPaid, "closed": contract.OrderClosed}[next]
	h.messages = append(h.messages, message(r, contract.TopicOrderEvents, event(it, kind)))
}

func (h *history) due(r *rapid.T) {
	if len(h.made) == 0 {
		r.Skip()
	}
	it := h.made[rapid.IntRange(0, len(h.made)-1).Draw(r, "order")]
	if h.orders.of(it.OrderSN) == "" {
		r.Skip() // a closing follows its order
	}
	h.messages = append(h.messages, message(r, contract.TopicOrderClose, contract.OrderClose{OrderSNs: []string{it.OrderSN}, ActivityID: h.a.ID, DueAt: time.Now()}))
}

func (h *history) adjust(r *rapid.T) {
	delta := rapid.Int64Range(-4, 4).Filter(func(n int64) bool { return n != 0 }).Draw(r, "delta")
	_, _ = h.merchants.AdjustStock(h.ctx, seller("m"), merchants.AdjustmentRequest{
		ActivityID: h.a.ID, SKUID: h.a.Items[0].SKUID, Delta: delta, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: newSN()},
	})
	h.faults.heal()
}

func (h *history) loseGate(*rapid.T) {
	require.NoError(h.t, h.rdb.FlushAll(h.ctx).Err())
}

// finish delivers everything that is in flight.
func (h *history) finish(r *rapid.T) {
	h.faults.heal()
	h.restart()
	require.NoError(r, h.gates.EnsureGates(h.ctx))
	for range 2 {
		for _, m := range h.messages {
			require.NoError(r, h.handle(m))
		}
		h.shift = time.Hour
		require.NoError(r, h.adjustmentSweep.Run(h.ctx))
		h.shift = 0
	}
	h.agree(h.a)
	for _, it := range h.made {
		row := h.row(it.OrderSN)
		switch h.orders.of(it.OrderSN) {
		case "paid":
			require.Equal(r, ledger.StateSold, row.State)
		case "closed":
			require.Equal(r, ledger.StateReleased, row.State)
		case "pending":
			require.Equal(r, ledger.StateReserved, row.State)
		case "refunded":
			r.Fatalf("%s was refunded although it had its unit", it.OrderSN)
		}
	}
}
