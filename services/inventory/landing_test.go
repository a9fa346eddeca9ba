package inventory

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

func TestAReservationLandsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 5, 5)
	r := w.buy(a, "u1", contract.Line{SKUID: a.Items[1].SKUID, Qty: 2})
	for range 3 {
		w.land(r)
	}
	w.land(r, r) // twice in one message
	w.agree(a)
	require.Equal(w.t, int64(2), w.stock(a)[1].Reserved)
	d := w.deductions()
	require.Len(w.t, d, 1)
	require.Equal(w.t, contract.Deduction{
		OrderSN: r.OrderSN, UserID: "u1", ActivityID: a.ID, Currency: "EUR", PayWithinS: 900, ReservedAt: d[r.OrderSN].ReservedAt,
		Lines: []contract.PricedLine{{SKUID: a.Items[1].SKUID, Qty: 2, Price: 101}},
	}, d[r.OrderSN])
	require.WithinDuration(w.t, r.ReservedAt, d[r.OrderSN].ReservedAt, time.Millisecond)
	require.Equal(w.t, stockgate.StatusQueued, w.entry(a, r.OrderSN).Status)
	w.follow(event(r, contract.OrderCreated))
	w.land(r) // it has an order: nothing to publish
	require.Empty(w.t, w.deductions())
	require.Equal(w.t, stockgate.StatusCreated, w.entry(a, r.OrderSN).Status)
}

// Each message of deductions describes their activities as they are when it is published, names of SKUs included.
func TestDeductionsDescribeTheirActivities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.sale(5, 9, 9), w.sale(5, 9)
	about := func() map[string]contract.ActivityInfo {
		found := map[string]contract.ActivityInfo{}
		for _, m := range w.broker.take(contract.TopicDeductions) {
			_, _, list := contract.DecodeDeductions(m.Body)
			for _, info := range list {
				require.NotContains(w.t, found, info.ActivityID, "once")
				found[info.ActivityID] = info
			}
		}
		return found
	}
	w.land(w.buy(a, "u1"), w.buy(b, "u1"), w.buy(a, "u2"))
	got := about()
	require.Len(w.t, got, 2)
	for _, of := range []*core.Activity{a, b} {
		info := got[of.ID]
		require.NoError(w.t, info.Validate())
		require.Equal(w.t, of.Title, info.Title)
		require.True(w.t, of.EndsAt.Equal(info.EndsAt))
		require.Len(w.t, info.SKUs, len(of.Items))
		for i, it := range of.Items {
			require.Equal(w.t, contract.SKUName{SKUID: it.SKUID, Name: it.Name}, info.SKUs[i])
		}
	}
	title, later := "another title", a.EndsAt.Add(time.Hour)
	_, err := w.merchants.PatchActivity(w.ctx, seller("merchant"), a.ID, merchants.ActivityPatch{Title: &title, EndsAt: &later})
	require.NoError(w.t, err)
	w.shift += time.Second // for so long the first description is used
	w.land(w.buy(a, "u3"))
	now := about()
	require.Len(w.t, now, 1)
	require.Equal(w.t, title, now[a.ID].Title)
	require.True(w.t, later.Equal(now[a.ID].EndsAt))
	require.True(w.t, now[a.ID].AsOf.After(got[a.ID].AsOf))
}

func TestTheLedgerServesFirstComeFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 3)
	sku := a.Items[0].SKUID
	var items []contract.Reservation
	for i := range 5 { // the gate lacks them, as after its loss
		items = append(items, contract.Reservation{
			OrderSN: newSN(), UserID: fmt.Sprint("u", i), ActivityID: a.ID, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: w.parts.Now(),
		})
	}
	again := items[0]
	again.OrderSN = newSN()
	items = append([]contract.Reservation{items[0], again}, items[1:]...)
	w.land(items...)
	w.agree(a)
	for i, want := range []ledger.State{ledger.StateReserved, ledger.StateRejected, ledger.StateReserved, ledger.StateReserved, ledger.StateRejected, ledger.StateRejected} {
		row := w.row(items[i].OrderSN)
		require.Equal(w.t, want, row.State, i)
		switch {
		case i == 1:
			require.Equal(w.t, ledger.ReasonLimitReached, row.Reason)
		case want == ledger.StateRejected:
			require.Equal(w.t, ledger.ReasonSoldOut, row.Reason)
		}
	}
	require.Zero(w.t, w.left(a, 0))
	require.Len(w.t, w.deductions(), 3)
	w.land(items...) // redelivered: nothing moves
	w.agree(a)
	require.Len(w.t, w.deductions(), 3)
}

func TestAnOrderSNOfAnotherBuyerBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.sale(5, 9, 9), w.sale(5, 9)
	r := w.buy(a, "u1")
	w.land(r)
	for _, change := range []func(*contract.Reservation){
		func(x *contract.Reservation) { x.UserID = "u2" },
		func(x *contract.Reservation) { // the gate of the other activity accepted it
			x.ActivityID, x.Lines = b.ID, []contract.Line{{SKUID: b.Items[0].SKUID, Qty: 1}}
			verdicts, err := w.gate.Reserve(w.ctx, b.ID, []stockgate.Request{{OrderSN: x.OrderSN, UserID: x.UserID, Lines: x.Lines}})
			require.NoError(w.t, err)
			require.Equal(w.t, stockgate.Accepted, verdicts[0].Outcome)
		},
		func(x *contract.Reservation) { x.Lines = []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 2}} },
		func(x *contract.Reservation) { x.Lines = []contract.Line{{SKUID: a.Items[1].SKUID, Qty: 1}} },
	} {
		other := r
		change(&other)
		w.land(other)
		w.land(other) // its dead letter is written once
	}
	w.agree(a)
	w.sound(b)
	deadLetters := w.deadLetters(core.DeadLetterOpen)
	require.Len(w.t, deadLetters, 4)
	for _, l := range deadLetters {
		require.Equal(w.t, r.OrderSN, l.OrderSN)
		require.Equal(w.t, int64(2), l.Occurrences)
		got, err := w.core.RejectDeadLetter(w.ctx, operator("op"), l.ID) // changes nothing about the valid purchase
		require.NoError(w.t, err)
		require.Equal(w.t, core.DeadLetterRejected, got.State)
	}
	require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
	w.agree(a)
	w.agree(b)
	e := w.entry(b, r.OrderSN)
	require.Equal(w.t, []any{stockgate.StatusFailed, "system"}, []any{e.Status, e.Reason})
	w.follow(event(r, contract.OrderCreated))
	foreign := event(r, contract.OrderPaid)
	foreign.UserID = "u2"
	w.follow(foreign, event(r, contract.OrderCreated))
	require.Equal(w.t, ledger.StateReserved, w.row(r.OrderSN).State)
	require.Len(w.t, w.deadLetters(core.DeadLetterOpen), 1)
}

func TestOneInvalidItemAmongValidOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 300)
	sku := a.Items[0].SKUID
	var raws []json.RawMessage
	bad := ""
	for i := range 256 {
		r := contract.Reservation{OrderSN: newSN(), UserID: fmt.Sprint("u", i), ActivityID: a.ID, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, ReservedAt: w.parts.Now()}
		raw, err := json.Marshal(r)
		require.NoError(w.t, err)
		if i == 100 {
			raw, bad = []byte(strings.Replace(string(raw), `"qty":1`, `"qty":1.5`, 1)), r.OrderSN
		}
		raws = append(raws, raw)
	}
	body, err := json.Marshal(map[string]any{"v": 1, "items": raws})
	require.NoError(w.t, err)
	for range 2 {
		require.NoError(w.t, w.consumer.Reservations(w.ctx, bus.Delivery{Message: bus.Message{Body: body}, Attempt: 1}))
	}
	w.agree(a)
	require.Equal(w.t, int64(255), w.stock(a)[0].Reserved)
	require.Len(w.t, w.deductions(), 255)
	deadLetters := w.deadLetters(core.DeadLetterOpen)
	require.Len(w.t, deadLetters, 1)
	require.Equal(w.t, bad, deadLetters[0].OrderSN)
	require.Equal(w.t, a.ID, deadLetters[0].ActivityID)
	require.Equal(w.t, contract.GroupInventoryReservations, deadLetters[0].Where)
}

func TestUnparseableMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, handle := range []bus.Handler{w.consumer.Reservations, w.consumer.OrderEvents, w.consumer.OrderClose, w.consumer.DeadLetters} {
		for _, body := range []string{"", "{", "[]", `{"v":2,"items":[]}`, "\xff\xfe"} {
			require.NoError(w.t, handle(w.ctx, bus.Delivery{Message: bus.Message{Body: []byte(body)}}), "%d %q", i, body)
		}
	}
	deadLetters := w.deadLetters(core.DeadLetterOpen)
	require.Len(w.t, deadLetters, 20)
	for _, l := range deadLetters {
		_, err := w.core.ReplayDeadLetter(w.ctx, operator("op"), l.ID)
		require.NoError(w.t, err)
		_, err = w.core.RejectDeadLetter(w.ctx, operator("op"), l.ID)
		require.NoError(w.t, err)
	}
	for _, m := range w.broker.take(contract.TopicReservations) {
		require.Contains(w.t, []string{"", "{", "[]", `{"v":2,"items":[]}`, "\xff\xfe", `{"v":1,"items":[[]]}`}, string(m.Body))
	}
}

func TestUnknownActivityAndSKUBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, draft := w.sale(1, 5), w.draft(1, 5)
	r := w.buy(a, "u1")
	for i, change := range []func(*contract.Reservation){
		func(x *contract.Reservation) { x.ActivityID = "999999" },
		func(x *contract.Reservation) { x.ActivityID = draft.ID },
		func(x *contract.Reservation) { x.Lines = []contract.Line{{SKUID: "999999", Qty: 1}} },
	} {
		other := r
		other.OrderSN = newSN()
		change(&other)
		w.land(other)
		deadLetters := w.deadLetters(core.DeadLetterOpen)
		require.Len(w.t, deadLetters, i+1)
		require.Equal(w.t, other.OrderSN, deadLetters[0].OrderSN)
	}
	w.land(r)
	w.agree(a)
}

// Two processes get the same messages at the same time, on a real server with real locks.
func TestConcurrentInstancesLandTheSameMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 40, 40)
	var messages []bus.Delivery
	for m := range 6 {
		var items []contract.Reservation
		for i := range 12 {
			line := contract.Line{SKUID: a.Items[(m+i)%2].SKUID, Qty: 1}
			items = append(items, contract.Reservation{OrderSN: newSN(), UserID: fmt.Sprint("u", m*12+i), ActivityID: a.ID, Lines: []contract.Line{line}, ReservedAt: w.parts.Now()})
		}
		messages = append(messages, message(t, contract.TopicReservations, items...))
	}
	var wg sync.WaitGroup
	errs := make(chan error, 100)
	for range 3 {
		for _, m := range messages {
			wg.Go(func() { errs <- w.consumer.Reservations(w.ctx, m) })
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	w.agree(a)
	items := w.stock(a)
	require.Equal(t, int64(72), items[0].Reserved+items[1].Reserved)
	require.Len(t, w.deductions(), 72)
}

// Values that the contract leaves open must not keep a message from landing.
func TestUnusualButValidItemsLand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 9)
	odd := w.buy(a, "u1")
	odd.ReservedAt, odd.Traceparent = time.Time{}, strings.Repeat("x", 300)
	w.land(odd)
	require.Empty(w.t, w.deadLetters(core.DeadLetterOpen))
	created := event(odd, contract.OrderCreated)
	far := time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)
	created.At, created.ExpiresAt = time.Time{}, &far
	closed := event(odd, contract.OrderClosed)
	closed.Reason = "Ünlesbar, und viel zu lang für jede Spalte"
	w.follow(created, closed)
	require.Equal(w.t, ledger.StateReleased, w.row(odd.OrderSN).State)
	require.Equal(w.t, ledger.ReasonExpired, w.entry(a, odd.OrderSN).Reason)
	require.NoError(w.t, w.consumer.DeadLetters(w.ctx, message(w.t, contract.TopicDeadLetters, contract.DeadLetter{
		Where: strings.Repeat("w", 300), Topic: "t", OrderSN: "nonsense", Why: strings.Repeat("y", 3000), Item: []byte("x"),
	})))
	require.Len(w.t, w.deadLetters(core.DeadLetterOpen), 1)
	w.sound(a)
}
