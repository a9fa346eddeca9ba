package core_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/ordertest"
)

func TestLandingABatch(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	var batch []contract.Deduction
	for i := range 256 {
		d := w.deduction(fmt.Sprintf("u%d", i))
		if i >= 200 { // another activity with another window
			d.ActivityID, d.PayWithinS = "8", 30
		}
		d.Traceparent = fmt.Sprintf("00-%032x-%016x-01", i+1, i+1)
		batch = append(batch, d)
	}
	w.clock.advance(1234567 * time.Nanosecond)
	began := time.Now()
	require.NoError(t, w.Land(t.Context(), batch, nil, nil))
	now := w.clock.Now().Truncate(time.Millisecond)

	o := w.get(t, batch[0])
	require.Equal(t, core.Order{
		OrderSN: batch[0].OrderSN, UserID: "u0", ActivityID: "7", State: core.Pending, Lines: batch[0].Lines, Amount: fullAmount,
		Currency: "EUR", CreatedAt: now, ExpiresAt: now.Add(payWithin), Traceparent: batch[0].Traceparent,
	}, o)

	events := items[contract.OrderEvent](t, w.bus.all(contract.TopicOrderEvents))
	require.Len(t, events, 256)
	for i, e := range events {
		require.Equal(t, batch[i].OrderSN, e.OrderSN)
		require.Equal(t, contract.OrderCreated, e.Type)
		require.Equal(t, contract.PlainLines(batch[i].Lines), e.Lines)
	}
	require.True(t, events[0].ExpiresAt.Equal(now.Add(payWithin)))

	// One delayed message for each activity and deadline.
	closings := w.bus.take(contract.TopicOrderClose)
	require.Len(t, closings, 2)
	for i, want := range []struct {
		orders int
		due    time.Time
	}{{200, now.Add(payWithin)}, {56, now.Add(30 * time.Second)}} {
		c := items[contract.OrderClose](t, closings[i:i+1])
		require.Len(t, c, 1, "never batched")
		require.Len(t, c[0].OrderSNs, want.orders)
		require.True(t, c[0].DueAt.Equal(want.due))
		left := want.due.Sub(now)
		require.WithinRange(t, closings[i].DeliverAt, began.Add(left-time.Second), time.Now().Add(left+time.Second))
	}
	require.Equal(t, 256, w.recorder.created)
}

func TestARedeliveredDeductionPublishesTheSameEvents(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	created := w.bus.take(contract.TopicOrderEvents)
	before := sqldb.RepeatsLeft(db)
	w.clock.advance(5 * time.Second)

	require.NoError(t, w.Land(t.Context(), []contract.Deduction{d, d}, nil, nil))
	require.Equal(t, items[contract.OrderEvent](t, created),
		items[contract.OrderEvent](t, w.bus.all(contract.TopicOrderEvents)))
	require.Len(t, w.bus.take(contract.TopicOrderClose), 1)

	p := w.started(t, d, "k")
	w.succeed(t, p.PaymentID)
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, nil))
	events := items[contract.OrderEvent](t, w.bus.all(contract.TopicOrderEvents))
	require.Len(t, events, 2, "created and its later transition")
	require.Equal(t, contract.OrderPaid, events[1].Type)
	require.Empty(t, w.bus.take(contract.TopicOrderClose), "nothing to close")
	require.Equal(t, 1, w.recorder.created)
	require.Equal(t, core.Paid, w.state(t, d))
	require.Equal(t, before, sqldb.RepeatsLeft(db), "no transaction was repeated")
}

func TestAConflictingDeductionBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d := w.created(t, "u1")
	before := w.get(t, d)
	good := w.deduction("u2")

	otherActivity, otherLines, otherPrice, otherUser, foreign := d, d, d, d, w.deduction("u1")
	otherActivity.ActivityID = "9"
	otherLines.Lines = []contract.PricedLine{{SKUID: "11", Qty: 3, Price: 350}, {SKUID: "12", Qty: 1, Price: 99}}
	otherPrice.Lines = []contract.PricedLine{{SKUID: "11", Qty: 2, Price: 351}, {SKUID: "12", Qty: 1, Price: 99}}
	otherUser.UserID = sameGene(t, "u1")
	foreign.UserID = "another-user" // whose gene is not in the order_sn
	for name, bad := range map[string]contract.Deduction{
		"activity": otherActivity, "lines": otherLines, "price": otherPrice, "user": otherUser, "gene": foreign,
	} {
		t.Run(name, func(t *testing.T) {
			w.bus.take("")
			incidents := w.recorder.count("dead_letter")
			require.NoError(t, w.Land(t.Context(), []contract.Deduction{bad, good}, nil, nil))
			deadLetters := items[contract.DeadLetter](t, w.bus.all(contract.TopicDeadLetters))
			require.Len(t, deadLetters, 1)
			require.Equal(t, contract.GroupOrderDeductions, deadLetters[0].Where)
			require.Equal(t, contract.TopicDeductions, deadLetters[0].Topic)
			require.Equal(t, bad.OrderSN, deadLetters[0].OrderSN)
			var kept contract.Deduction
			require.NoError(t, json.Unmarshal(deadLetters[0].Item, &kept))
			require.Equal(t, bad, kept)
			require.Equal(t, incidents+1, w.recorder.count("dead_letter"))
			events := items[contract.OrderEvent](t, w.bus.take(contract.TopicOrderEvents))
			require.Len(t, events, 1)
			require.Equal(t, good.OrderSN, events[0].OrderSN)
		})
	}
	require.Equal(t, before, w.get(t, d), "the order does not change")

	twice := w.deduction("u3")
	other := twice
	other.Currency = "USD"
	require.NoError(t, w.Land(t.Context(), []contract.Deduction{twice, other}, nil, nil))
	require.Len(t, w.bus.take(contract.TopicDeadLetters), 1)
	require.Equal(t, "EUR", w.get(t, twice).Currency)
}

// sameGene returns another user with the same gene.
func sameGene(t *testing.T, user string) string {
	t.Helper()
	w := &world{clock: &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	gene := func(u string) string { sn := w.orderSN(u); w.sn = 0; return sn }
	for i := range 100_000 {
		if u := fmt.Sprintf("other%d", i); gene(u) == gene(user) {
			return u
		}
	}
	t.Fatal("no user with this gene")
	return ""
}

func TestAPoisonedItemDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	var raw []json.RawMessage
	var good []contract.Deduction
	for i := range 255 {
		d := w.deduction(fmt.Sprintf("u%d", i))
		good = append(good, d)
		one, err := json.Marshal(d)
		require.NoError(t, err)
		raw = append(raw, one)
	}
	poison := json.RawMessage(`{"order_sn":"4711","activity_id":"7","lines":"all of them"}`)
	raw = append(raw[:100], append([]json.RawMessage{poison}, raw[100:]...)...)
	body, n, err := contract.Pack(raw)
	require.NoError(t, err)
	require.Equal(t, 256, n)

	decoded, bad := contract.Decode[contract.Deduction](body)
	require.NoError(t, w.Land(t.Context(), decoded, nil, bad))
	deadLetters := items[contract.DeadLetter](t, w.bus.all(contract.TopicDeadLetters))
	require.Len(t, deadLetters, 1)
	require.JSONEq(t, string(poison), string(deadLetters[0].Item))
	require.Equal(t, "4711", deadLetters[0].OrderSN)
	require.Equal(t, "7", deadLetters[0].ActivityID)
	require.Equal(t, 255, w.recorder.created)
	for _, d := range good {
		require.Equal(t, core.Pending, w.state(t, d))
	}
}

func TestAnUnparseableMessageBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	for _, body := range []string{"", "no json", `{"v":2,"items":[]}`, strings.Repeat("x", contract.MaxBytes)} {
		decoded, bad := contract.Decode[contract.Deduction]([]byte(body))
		require.NoError(t, w.Land(t.Context(), decoded, nil, bad))
		deadLetters := items[contract.DeadLetter](t, w.bus.take(contract.TopicDeadLetters))
		require.Len(t, deadLetters, 1)
		require.True(t, strings.HasPrefix(body, string(deadLetters[0].Item)))
	}
}

// Inventory publishes it again for as long as the units are reserved: it may have been killed after the tombstone. A
// closing makes it release them.
func TestADeductionWithATombstoneIsClosedAgain(t *testing.T) {
	t.Parallel()
	db := ordertest.MariaDB(t)
	w := newWorld(t, db)
	d, other := w.deduction("u1"), w.deduction("u2")
	require.Equal(t, []core.CloseResult{{OrderSN: d.OrderSN, Outcome: core.CloseUnknown}},
		w.close(t, core.ReasonExpired, d.OrderSN))
	for range 2 {
		require.NoError(t, w.Land(t.Context(), []contract.Deduction{d, other}, nil, nil))
		closings := w.bus.all(contract.TopicOrderClose)
		events := items[contract.OrderEvent](t, w.bus.take(contract.TopicOrderEvents))
		require.Len(t, events, 1)
		require.Equal(t, other.OrderSN, events[0].OrderSN)
		var closed []string
		for _, m := range closings {
			for _, c := range items[contract.OrderClose](t, []bus.Message{m}) {
				require.Equal(t, d.ActivityID, c.ActivityID)
				if slices.Contains(c.OrderSNs, d.OrderSN) {
					require.Zero(t, m.DeliverAt)
					closed = append(closed, c.OrderSNs...)
				}
			}
		}
		require.Equal(t, []string{d.OrderSN}, closed)
		_, err := w.Order(t.Context(), "u1", d.OrderSN)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		_, err = w.Order(t.Context(), "", d.OrderSN)
		require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
		require.Equal(t, core.CloseUnknown, w.close(t, core.ReasonRejected, d.OrderSN)[0].Outcome,
			"for this and every later closing")
	}
	page, _, err := w.List(t.Context(), core.ListQuery{UserID: "u1", Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page)
}

// If the process is killed after the commit, before or between its messages, the deduction is redelivered and all
// messages are published.
func TestCrashBetweenCommitPublishAndAck(t *testing.T) {
	t.Parallel()
	for _, dies := range []string{contract.TopicOrderEvents, contract.TopicOrderClose, contract.TopicDeadLetters} {
		t.Run(dies, func(t *testing.T) {
			db := ordertest.MariaDB(t)
			w := newWorld(t, db)
			d := w.deduction("u1")
			bad := []contract.BadItem{{Raw: []byte("?"), Err: errors.New("not a message")}}
			w.bus.fail = func(m bus.Message) bool { return m.Topic == dies }
			require.ErrorIs(t, w.Land(t.Context(), []contract.Deduction{d}, nil, bad), errBroker)
			require.Equal(t, core.Pending, w.state(t, d), "committed")
			require.Zero(t, w.recorder.count("dead_letter"))
			first := w.get(t, d)

			w.clock.advance(7 * time.Second)
			w.bus.fail = nil
			w.bus.take("")
			began := time.Now()
			require.NoError(t, w.Land(t.Context(), []contract.Deduction{d}, nil, bad))
			require.Equal(t, first, w.get(t, d))
			events := items[contract.OrderEvent](t, w.bus.all(contract.TopicOrderEvents))
			require.Len(t, events, 1)
			require.True(t, events[0].ExpiresAt.Equal(first.ExpiresAt), "the deadline does not change")
			closings := w.bus.all(contract.TopicOrderClose)
			require.Len(t, closings, 1)
			left := first.ExpiresAt.Sub(w.clock.Now())
			require.WithinRange(t, closings[0].DeliverAt, began.Add(left-time.Second), time.Now().Add(left+time.Second))
			require.Len(t, w.bus.all(contract.TopicDeadLetters), 1)
			require.Equal(t, 1, w.recorder.created)
		})
	}
}

// Several consumers land the same messages concurrently with closings of the same order_sns: every order_sn becomes
// either an order or a tombstone.
func TestConcurrentLandingsAndTombstones(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ordertest.MariaDB(t))
	const n = 120
	var batch []contract.Deduction
	var sns []string
	for i := range n {
		d := w.deduction(fmt.Sprintf("u%d", i))
		batch, sns = append(batch, d), append(sns, d.OrderSN)
	}
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	var mu sync.Mutex
	unknown := map[string]bool{}
	for i := range 6 {
		wg.Go(func() {
			own := append([]contract.Deduction(nil), batch[i*10:]...)
			for {
				err := w.Land(t.Context(), own, nil, nil)
				if contract.CodeOf(err) == contract.CodeUnavailable {
					continue // the broker redelivers
				}
				errs <- err
				return
			}
		})
		wg.Go(func() {
			for at := i; at+5 < n; at += 20 {
				r, err := w.CloseOrders(t.Context(), sns[at:at+5], core.ReasonExpired)
				if contract.CodeOf(err) == contract.CodeUnavailable {
					at -= 20
					continue
				}
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				for _, c := range r {
					if c.Outcome == core.CloseUnknown {
						unknown[c.OrderSN] = true
					}
				}
				mu.Unlock()
			}
			errs <- nil
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, w.Land(t.Context(), batch, nil, nil))
	orders := 0
	for _, d := range batch {
		_, err := w.Order(t.Context(), d.UserID, d.OrderSN)
		if unknown[d.OrderSN] {
			require.Equal(t, contract.CodeNotFound, contract.CodeOf(err))
			continue
		}
		require.NoError(t, err)
		orders++
	}
	require.Equal(t, orders, w.recorder.created, "each order was counted once")
	var rows int64
	require.NoError(t, w.db.Table("orders").Where("tombstone = ? AND line_items LIKE '%,%'", false).Count(&rows).Error)
	require.EqualValues(t, orders, rows)
}
