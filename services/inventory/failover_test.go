package inventory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// master is a gate on a Redis whose master can be replaced.
type master struct {
	core.Gate
	id string
}

func (m *master) ReplicationID(context.Context) (string, error) { return m.id, nil }

func (w *world) onMaster() *master {
	m := &master{Gate: w.parts.Gate, id: "first"}
	w.parts.Gate = m
	w.restart()
	return m
}

// forgets handles a message whose effects on the gate are acknowledged and lost in a failover.
func (w *world) forgets(handle func() error) {
	w.t.Helper()
	w.faults.kill(2, false) // the ledger's transaction is the first step
	require.Error(w.t, handle())
	require.True(w.t, w.faults.heal())
}

// The new master never heard of the last effects, whatever they were.
func TestANewMasterHearsAgainWhatTheOldOneWasTold(t *testing.T) {
	eachDB(t, func(w *world) {
		m := w.onMaster()
		a := w.sale(1, 10)
		require.NoError(w.t, w.core.KeepGates(w.ctx))
		var r []contract.Reservation
		for i := range 4 {
			r = append(r, w.buy(a, fmt.Sprint("u", i)))
		}
		w.land(r...)
		w.follow(event(r[2], contract.OrderCreated))
		events := message(w.t, contract.TopicOrderEvents, event(r[0], contract.OrderCreated), event(r[1], contract.OrderPaid), event(r[2], contract.OrderClosed))
		w.forgets(func() error { return w.consumer.OrderEvents(w.ctx, events) })
		unheard := contract.Reservation{OrderSN: newSN(), UserID: "u4", ActivityID: a.ID, Lines: r[0].Lines, ReservedAt: w.parts.Now()}
		w.forgets(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, unheard)) })
		refused := w.buy(a, "u4") // the gate lets the buyer have another one
		w.forgets(func() error { return w.consumer.Reservations(w.ctx, message(w.t, contract.TopicReservations, refused)) })

		require.NoError(w.t, w.core.KeepGates(w.ctx))
		require.Equal(w.t, int64(5), w.left(a, 0), "the same master has lost nothing")
		m.id = "second"
		require.NoError(w.t, w.core.KeepGates(w.ctx))
		w.agree(a)
		require.Equal(w.t, int64(6), w.left(a, 0))
	})
}

// Redis was away for longer than the window: what its old master forgot it was told before that.
func TestAMasterReplacedAfterALongOutageHearsAllOfIt(t *testing.T) {
	eachDB(t, func(w *world) {
		m := w.onMaster()
		a := w.sale(1, 10)
		r := w.buy(a, "u1")
		w.land(r)
		require.NoError(w.t, w.core.KeepGates(w.ctx))
		w.forgets(func() error {
			return w.consumer.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents, event(r, contract.OrderPaid)))
		})
		w.shift = 30 * time.Minute
		m.id = "second"
		require.NoError(w.t, w.core.KeepGates(w.ctx))
		w.agree(a)
	})
}

// The list of gates lies on another node than the gate. Without it no relay reads the journal.
func TestAGateOffTheListIsListedAgain(t *testing.T) {
	eachDB(t, func(w *world) {
		a := w.sale(1, 10)
		require.NoError(w.t, w.gate.Forget(w.ctx, ref(a)))
		require.NoError(w.t, w.core.KeepGates(w.ctx))
		refs, err := w.gate.Refs(w.ctx)
		require.NoError(w.t, err)
		require.Contains(w.t, refs, ref(a))
	})
}
