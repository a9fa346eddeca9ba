package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// closeLater delivers a closing and all that follow from it, on a bus that delivers each of them so much too early,
// until none is left. It returns the number of calls to the order service.
func (w *world) closeLater(early time.Duration, first contract.OrderClose) (calls int) {
	w.t.Helper()
	before := w.orders.closed()
	next := []bus.Delivery{message(w.t, contract.TopicOrderClose, first)}
	for len(next) > 0 && w.orders.closed()-before < 100 {
		d := next[0]
		w.shift += max(0, time.Until(d.DeliverAt)-early)
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, d))
		next = next[1:]
		for _, m := range w.broker.take(contract.TopicOrderClose) {
			next = append(next, bus.Delivery{Message: m, Attempt: 1})
		}
	}
	return w.orders.closed() - before
}

// A bus whose clock is ahead delivers delayed messages early: order answers not_due.
func TestABusThatIsAheadCausesFewCalls(t *testing.T) {
	for _, c := range []struct {
		early time.Duration
		most  int
	}{{0, 2}, {5 * time.Second, 5}, {5 * time.Minute, 11}} {
		t.Run(fmt.Sprint(c.early), func(t *testing.T) {
			eachDB(t, func(w *world) {
				w.orders.now = w.parts.Now
				a := w.sale(1, 2)
				r := w.buy(a, "u")
				w.land(r)
				w.follow(event(r, contract.OrderCreated))
				w.orders.set("pending", r.OrderSN)
				due := w.parts.Now().Add(290 * time.Second).UTC().Truncate(time.Millisecond)
				w.orders.due[r.OrderSN] = due
				closing := contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: due}

				calls := w.closeLater(c.early, closing)
				require.LessOrEqual(w.t, calls, c.most)
				if w.orders.of(r.OrderSN) == "pending" { // order sends it again 30 s after the deadline
					w.shift = time.Until(due) + 30*time.Second
					calls += w.closeLater(c.early, closing)
				}
				require.LessOrEqual(w.t, calls, 12)
				require.Equal(w.t, core.StateReleased, w.row(r.OrderSN).State)
				w.agree(a)
			})
		})
	}
}

// The pauses between closings that come too early grow from 1 s to 30 s.
func TestThePausesAfterEarlyClosingsGrow(t *testing.T) {
	eachDB(t, func(w *world) {
		a := w.sale(1, 2)
		r := w.buy(a, "u")
		w.land(r)
		w.orders.set("pending", r.OrderSN)
		due := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
		w.orders.due[r.OrderSN] = due
		w.shift = 2 * time.Minute // this process is ahead of the order service
		next := message(w.t, contract.TopicOrderClose,
			contract.OrderClose{OrderSNs: []string{r.OrderSN}, ActivityID: a.ID, DueAt: due})
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30, 30, 30} {
			began := time.Now()
			require.NoError(w.t, w.consumer.OrderClose(w.ctx, next))
			sent := w.broker.take(contract.TopicOrderClose)
			require.Len(w.t, sent, 1)
			require.WithinRange(w.t, sent[0].DeliverAt, began.Add(want*time.Second-time.Second/10), time.Now().Add(want*time.Second))
			next.Message = sent[0]
		}
		require.NoError(w.t, w.consumer.OrderClose(w.ctx, next))
		require.Empty(w.t, w.broker.take(contract.TopicOrderClose), "left to the sweep of the order service")
	})
}
