package inventory

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/sweep"
)

// RocketMQ fails with what it had confirmed: deductions, or the events of their orders. Once messages are calls, each
// deduction without an order is published again when it is 10 s old. That an order exists already, or that the message
// arrives again when RocketMQ returns, changes nothing.
//
// A redisless purchase is a row as any other, and the waiting room and a challenge come before the purchase.
func TestDeductionsArePublishedAgainOnceMessagesAreCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	brokerlessFor := time.Duration(0)
	w.parts.BrokerlessFor = func() time.Duration { return brokerlessFor }
	w.restart()
	now := time.Now().UTC().Truncate(time.Millisecond)
	w.fixed = func() time.Time { return now }
	a := w.sale(1, 9)
	published := func() []string {
		w.sweepOrders()
		var sns []string
		for sn := range w.deductions() {
			sns = append(sns, sn)
		}
		return sns
	}

	old, ordered := w.buy(a, "u1"), w.buy(a, "u2") // the order's event arrives, and the other's is lost
	w.land(old, ordered)
	w.follow(event(ordered, contract.OrderCreated))
	now = now.Add(time.Minute)
	w.deductions()
	require.Equal(t, []string{old.OrderSN}, published(), "RocketMQ takes it again, and fails")
	young := w.buy(a, "u3")
	w.land(young)
	w.deductions()

	now = now.Add(9 * time.Second)
	require.Empty(t, published())
	brokerlessFor = time.Nanosecond
	require.Empty(t, published(), "younger than 10 s")
	now, brokerlessFor = now.Add(time.Second), time.Second
	require.ElementsMatch(t, []string{old.OrderSN, young.OrderSN}, published(), "one was repeated, its pause is 2 min")
	for range 4 {
		now, brokerlessFor = now.Add(5*time.Second), brokerlessFor+5*time.Second
		require.Empty(t, published(), "each only once")
	}

	late := w.buy(a, "u4") // its call failed after the commit
	w.land(late)
	w.deductions()
	now, brokerlessFor = now.Add(10*time.Second), brokerlessFor+10*time.Second
	require.Equal(t, []string{late.OrderSN}, published())

	for range 5 { // a link that breaks again and again
		brokerlessFor, now = 0, now.Add(time.Second)
		require.Empty(t, published())
		brokerlessFor, now = time.Second, now.Add(time.Second)
		require.Empty(t, published(), "the same outage")
	}
	brokerlessFor, now = 0, now.Add(50*time.Second)
	after := w.buy(a, "u5")
	w.land(after)
	w.deductions()
	now = now.Add(11 * time.Second)
	require.Empty(t, published(), "RocketMQ has returned: the usual pause is 1 min")
	now, brokerlessFor = now.Add(time.Second), time.Second // it fails again
	require.ElementsMatch(t, []string{old.OrderSN, young.OrderSN, late.OrderSN, after.OrderSN}, published())

	for range 2 { // the calls, and what RocketMQ delivers in the end
		all := []contract.Reservation{old, ordered, young, late, after}
		w.land(all...)
		for _, r := range all {
			w.follow(event(r, contract.OrderCreated))
		}
	}
	w.deductions()
	now = now.Add(time.Hour)
	require.Empty(t, published())
	w.agree(a)
	require.Equal(t, int64(4), w.left(a, 0))
}

// A reservation that is soon given up is due at that time, whatever its pauses. It is not repeated in each round.
func TestAnOldReservationIsRepeatedOnceAtTheSwitch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.BrokerlessFor = func() time.Duration { return 10 * time.Second }
	w.restart()
	now := time.Now().UTC().Truncate(time.Millisecond)
	w.fixed = func() time.Time { return now }
	r := w.buy(w.sale(1, 9), "u")
	w.land(r)
	now = now.Add(w.parts.Sweep.AbandonAfter - 20*time.Minute)
	w.deductions()
	w.sweepOrders()
	require.Contains(t, w.deductions(), r.OrderSN, "its time had come")
	w.sweepOrders()
	require.Empty(t, w.deductions())
}

// An activity whose deductions RocketMQ refused until the switch is not left out for the pause of its failures.
func TestFailuresBeforeTheSwitchDelayNoDeduction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	brokerlessFor := time.Duration(0)
	w.parts.BrokerlessFor = func() time.Duration { return brokerlessFor }
	w.restart()
	now := time.Now().UTC().Truncate(time.Millisecond)
	w.fixed = func() time.Time { return now }
	r := w.buy(w.sale(1, 9), "u")
	w.land(r)
	w.deductions()
	now = now.Add(time.Minute)
	w.broker.setDown(true)
	for range 10 { // the pause grows
		_, err := w.orderSweep.RunBatch(w.ctx)
		require.Error(t, err)
		now = now.Add(2 * time.Minute)
	}
	_, err := w.orderSweep.RunBatch(w.ctx)
	require.Error(t, err)
	w.broker.setDown(false)
	now, brokerlessFor = now.Add(time.Second), time.Nanosecond
	w.sweepOrders()
	require.Contains(t, w.deductions(), r.OrderSN)
}

// laterGate is a gate whose clock is ahead.
type laterGate struct {
	*faultyGate
	ahead time.Duration
}

func (g *laterGate) Now(ctx context.Context) (time.Time, error) {
	now, err := g.faultyGate.Now(ctx)
	return now.Add(g.ahead), err
}

// RocketMQ fails with purchases that it had confirmed. Once messages are calls, each that has not landed is journaled
// again when it is 10 s old, all in one round. One whose relay has not published it yet stays in the journal once.
//
// Without Redis there is no journal: what was accepted at the gate follows when Redis returns.
func TestPurchasesAreJournaledAgainOnceMessagesAreCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Sweep.RejournalAfter, w.parts.Sweep.RejournalCap = time.Hour, time.Hour // the test is quicker
	gate := &laterGate{faultyGate: w.parts.Gate}
	brokerlessFor := time.Duration(0)
	journal := sweep.NewJournal(sweep.JournalDeps{
		Store: w.parts.Store, Gate: gate, Gates: w.syncer, Recorder: w.parts.Recorder,
		Incidents: core.NewIncidents(w.parts.Recorder, w.parts.Now), Config: w.parts.Sweep.JournalConfig,
		BrokerlessFor: func() time.Duration { return brokerlessFor },
	})
	round := func() { require.NoError(t, journal.Run(w.ctx)) }

	a := w.sale(1, 2000)
	lost := map[string]bool{}
	for i := range 11 { // more than a page of the sweep
		var group []stockgate.Request
		for k := range 100 {
			group = append(group, stockgate.Request{
				OrderSN: newSN(), UserID: fmt.Sprint("u", i, "-", k), Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}},
			})
			lost[group[k].OrderSN] = true
		}
		_, err := w.gate.Reserve(w.ctx, a.ID, group)
		require.NoError(t, err)
		w.relay(a)
	}
	landed := w.buy(a, "landed")
	w.faults.kill(2, false) // landed, but the gate is not synced
	require.Error(t, w.consumer.Reservations(w.ctx, message(t, contract.TopicReservations, landed)))
	require.True(t, w.faults.heal())
	waiting, _ := w.reserve(a, "waiting") // for its relay

	entries := func() map[string]int {
		times := map[string]int{}
		for {
			read, _, err := w.gate.ReadJournal(w.ctx, a.ID, "test", 1000)
			require.NoError(t, err)
			if len(read) == 0 {
				return times
			}
			for _, e := range read {
				times[e.OrderSN]++
			}
		}
	}
	gate.ahead = 30 * time.Minute
	round()
	n, err := w.gate.JournalLen(w.ctx, a.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "RocketMQ may deliver them")
	brokerlessFor = time.Second
	round()
	require.True(t, w.entry(a, landed.OrderSN).Landed)
	round()
	times := entries()
	require.Equal(t, 1, times[waiting.OrderSN])
	require.Len(t, times, len(lost)+1)
	for sn := range lost {
		require.Equal(t, 1, times[sn])
	}

	// Another switch: what was journaled again is lost once more.
	for n > 0 {
		read, err := w.gate.Unacked(w.ctx, a.ID)
		require.NoError(t, err)
		var ids []string
		for _, e := range read["test"] {
			ids = append(ids, e.ID)
		}
		require.NoError(t, w.gate.Ack(w.ctx, a.ID, ids))
		n, err = w.gate.JournalLen(w.ctx, a.ID)
		require.NoError(t, err)
	}
	brokerlessFor = 0
	round()
	require.Empty(t, entries())
	brokerlessFor = time.Second
	round()
	require.Empty(t, entries(), "the same outage")
	brokerlessFor = 0
	gate.ahead += 2 * time.Minute
	round()
	brokerlessFor = time.Second
	round()
	require.Len(t, entries(), len(lost)+1)
}
