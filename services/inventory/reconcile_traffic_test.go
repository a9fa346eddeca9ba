package inventory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// traffic is heavy traffic of every kind on one activity, as the services make it: purchases, relays, landings in
// batches, orders, payments, closings, adjustments, pauses.
type traffic struct {
	*world
	a       *core.Activity
	landing chan contract.Reservation
	orders  chan contract.Reservation
	wg      sync.WaitGroup
}

func (w *world) traffic(a *core.Activity) *traffic {
	return &traffic{world: w, a: a, landing: make(chan contract.Reservation, 10_000), orders: make(chan contract.Reservation, 10_000)}
}

// run runs n buyers, and more, up to most, until enough is true. It returns when all their purchases have ended.
func (c *traffic) run(t *testing.T, n, most int, enough func() bool) {
	ctx := c.ctx
	var buyers, landers, enders sync.WaitGroup
	const width = 4
	for i := range width {
		buyers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 7))
			for k := 0; k < n/width || k < most/width && !enough(); k++ {
				line := contract.Line{SKUID: c.a.Items[rnd.IntN(2)].SKUID, Qty: 1 + rnd.Int64N(2)}
				r := contract.Reservation{
					OrderSN: newSN(), UserID: fmt.Sprintf("c%d-%d", i, k), ActivityID: c.a.ID, Lines: []contract.Line{line},
					ReservedAt: time.Now().UTC().Truncate(time.Millisecond),
				}
				v, err := c.gate.Reserve(ctx, c.a.ID, []stockgate.Request{{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines}})
				if err != nil {
					t.Error(err)
					return
				}
				if v[0].Outcome == stockgate.Accepted {
					c.landing <- r
				}
			}
		})
	}
	for range 2 {
		landers.Go(func() {
			for r := range c.landing {
				batch := []contract.Reservation{r}
				for len(batch) < 20 && len(c.landing) > 0 {
					if next, ok := <-c.landing; ok {
						batch = append(batch, next)
					}
				}
				if err := c.consumer.Reservations(ctx, message(t, contract.TopicReservations, batch...)); err != nil {
					t.Error(err)
				}
				for _, b := range batch {
					c.orders <- b
				}
			}
		})
	}
	for i := range 2 {
		enders.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 9))
			for r := range c.orders {
				kinds := []contract.OrderEventType{contract.OrderCreated, contract.OrderClosed}
				if rnd.IntN(8) == 0 {
					kinds[1] = contract.OrderPaid
				}
				for _, k := range kinds {
					if err := c.consumer.OrderEvents(ctx, message(t, contract.TopicOrderEvents, event(r, k))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	c.wg.Go(func() { // the relay, and a merchant
		for n := 0; ; n++ {
			entries, _, err := c.gate.ReadJournal(ctx, c.a.ID, "traffic", 256)
			if err != nil {
				t.Error(err)
			}
			ids := make([]string, len(entries))
			for i, e := range entries {
				ids[i] = e.ID
			}
			if len(ids) > 0 {
				if err := c.gate.Ack(ctx, c.a.ID, ids); err != nil {
					t.Error(err)
				}
			}
			if n%50 == 49 {
				delta := int64(1 + n%7)
				if n%100 == 99 {
					delta = -delta
				}
				_, err := c.merchants.AdjustStock(ctx, seller("m"), merchants.AdjustmentRequest{
					ActivityID: c.a.ID, SKUID: c.a.Items[0].SKUID, Delta: delta, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: newSN()},
				})
				if err != nil && contract.CodeOf(err) != contract.CodeInsufficientStock {
					t.Error(err)
				}
			}
			select {
			case <-stop:
				if len(entries) == 0 {
					return
				}
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	buyers.Wait()
	close(c.landing)
	landers.Wait()
	close(c.orders)
	enders.Wait()
	close(stop)
	c.wg.Wait()
}

// Beside heavy traffic and without damage nothing is repaired.
func TestConcurrentPurchasesAreNotRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The default of the service: a purchase that takes less than the grace is in flight.
	w.parts.Reconcile.Grace, w.parts.Reconcile.Pause = reconcile.DefaultConfig().Grace, 20*time.Millisecond
	w.restart()
	a := w.sale(2, 150, 90)
	ctx, cancel := context.WithCancel(w.ctx)
	var rounds atomic.Int64
	var differences int
	var wg sync.WaitGroup
	other := w.parts.start().reconciler // in another process
	wg.Go(func() {
		for ctx.Err() == nil {
			r, err := other.Reconcile(ctx, operator("loop"), a.ID)
			if ctx.Err() != nil {
				return
			}
			if err != nil && sqldb.IsTransient(err) {
				continue // for example a deadlock with a purchase
			}
			if err != nil {
				w.t.Errorf("reconciliation: %v", err)
				return
			}
			rounds.Add(1)
			if len(r.Repairs) > 0 {
				w.t.Errorf("repaired: %+v", r.Repairs)
				return
			}
			differences += len(r.Differences)
		}
	})
	// With one writer at a time no reconciliation may end during the first few hundred purchases.
	w.traffic(a).run(t, 600, 20_000, func() bool { return rounds.Load() > 0 || w.t.Failed() })
	cancel()
	wg.Wait()
	require.Positive(w.t, rounds.Load())
	w.t.Logf("%d reconciliations during the traffic, %d differences reported as in flight", rounds.Load(), differences)
	w.agree(a)
	w.whole(w.t, a)
	w.settles()
	r := w.reconcile(a)
	require.Empty(w.t, r.Repairs)
	require.Empty(w.t, r.Differences)
}

// After any damage, traffic and kills: once the traffic has stopped, a few reconciliations make gate and ledger
// agree, and nothing was sold twice.
func TestAnyDamageIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(r *rapid.T) {
		w.faults.heal()
		w.shift = 0
		limit := rapid.Int64Range(1, 3).Draw(r, "limit")
		a := w.sale(limit, rapid.Int64Range(4, 12).Draw(r, "stock"), 5)
		h := &history{world: w, a: a, limit: limit}
		r.Repeat(map[string]func(*rapid.T){
			"buy":     h.buySome,
			"deliver": h.deliver,
			"event":   h.orderStep,
			"adjust":  h.adjust,
			"damage":  h.damage,
			"damage2": h.damage,
			"keep":    func(*rapid.T) { _ = w.gates.EnsureGates(w.ctx); w.faults.heal() },
			"reconcile": func(r *rapid.T) {
				w.settles()
				_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
				if err != nil && !errors.Is(err, core.ErrGateUnavailable) && !errors.Is(err, errKilled) {
					r.Fatalf("reconcile: %v", err)
				}
				w.faults.heal()
			},
			"fault next": func(r *rapid.T) { w.faults.kill(rapid.IntRange(1, 4).Draw(r, "step"), rapid.Bool().Draw(r, "after")) },
			"":           func(*rapid.T) { h.addsUp(r) },
		})
		w.faults.heal()
		w.restart()
		require.NoError(r, w.gates.EnsureGates(w.ctx))
		for range 2 {
			for _, m := range h.messages {
				require.NoError(r, h.handle(m))
			}
			w.shift += time.Hour
			_, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID) // an adjustment may need a missing counter
			require.NoError(r, err)
			require.NoError(r, w.adjustmentSweep.Run(w.ctx))
		}
		w.settles()
		for n := 1; ; n++ { // purchases whose message was never delivered stay queued
			out, err := w.reconciler.Reconcile(w.ctx, operator("operator"), a.ID)
			require.NoError(r, err)
			if len(out.Repairs)+len(out.Differences) == 0 {
				break
			}
			require.Less(r, n, 4, "it never ends: %+v", out)
		}
		w.shift = 0
		w.whole(r, a)
		w.agree(a)
	})
}

// addsUp checks the invariants of the database, which hold whatever happens to the gate. Allowances are damaged too.
func (h *history) addsUp(r *rapid.T) {
	for _, it := range h.stock(h.a) {
		require.Equal(r, it.Total, it.Available+it.Reserved+it.Sold)
		require.GreaterOrEqual(r, it.Available, int64(0))
	}
}

// damage changes something in the gate, or an allowance.
func (h *history) damage(r *rapid.T) {
	ctx, a := h.ctx, h.a
	key := func(name string) string { return gateKey(a, name) }
	sku := a.Items[rapid.IntRange(0, 1).Draw(r, "sku")].SKUID
	// An entry that the ledger has: the loss of any other could not be detected.
	landed := func() string {
		rows, err := h.parts.Store.ReservationsOfActivity(ctx, core.AllMerchants(), a.ID, core.ReservationFilter{}, core.Page{Limit: 1000})
		require.NoError(r, err)
		if len(rows) == 0 {
			r.Skip("nothing has landed")
		}
		return rows[rapid.IntRange(0, len(rows)-1).Draw(r, "row")].OrderSN
	}
	if n, err := h.rdb.Exists(ctx, key("gate")).Result(); err != nil || n == 0 {
		r.Skip("there is no gate")
	}
	switch rapid.SampledFrom([]string{
		"entry", "stage", "buyer", "buyers", "counter", "field", "index", "journal", "gate", "all", "config", "allowance",
	}).Draw(r, "what") {
	case "entry":
		require.NoError(r, h.rdb.HDel(ctx, key("held"), landed()).Err())
	case "stage":
		sn := landed()
		stored, err := h.rdb.HGet(ctx, key("held"), sn).Result()
		if err == nil {
			to := rapid.SampledFrom([]string{"l", "c", "p", "x", "f", "?"}).Draw(r, "to")
			require.NoError(r, h.rdb.HSet(ctx, key("held"), sn, to+stored[1:]).Err())
			h.shown[sn] += to
		}
	case "buyer":
		require.NoError(r, h.rdb.HSet(ctx, key("buyers"), fmt.Sprint("u", rapid.IntRange(1, 4).Draw(r, "user")), "7|123,|").Err())
	case "buyers":
		require.NoError(r, h.rdb.Del(ctx, key("buyers")).Err())
	case "counter":
		field := rapid.SampledFrom([]string{"s:", "h:", "p:", "t:", "u:"}).Draw(r, "field")
		require.NoError(r, h.rdb.HIncrBy(ctx, key("gate"), field+sku, rapid.Int64Range(-5, 5).Draw(r, "by")).Err())
	case "field":
		require.NoError(r, h.rdb.HDel(ctx, key("gate"), rapid.SampledFrom([]string{"s:" + sku, "h:" + sku, "held", "moves"}).Draw(r, "field")).Err())
	case "index":
		require.NoError(r, h.rdb.Del(ctx, key(rapid.SampledFrom([]string{"unlanded", "ended"}).Draw(r, "index"))).Err())
	case "journal":
		require.NoError(r, h.rdb.Del(ctx, key("journal")).Err())
	case "gate":
		require.NoError(r, h.rdb.Del(ctx, key("gate")).Err())
	case "all":
		require.NoError(r, h.rdb.FlushAll(ctx).Err())
	case "config":
		// With its start a later version is no decision that the database has lost: TestALostPauseIsProvedByTheGate.
		require.NoError(r, h.rdb.HSet(ctx, key("gate"), "state", "paused", "starts", "1",
			"version", rapid.IntRange(0, 99).Draw(r, "version")).Err())
	case "allowance":
		// Only upwards: an allowance that is too low lets its user buy more than the limit.
		require.NoError(r, h.db.Exec("UPDATE allowances SET held = held + ? WHERE activity_id = ? AND user_id = ?",
			rapid.IntRange(1, 3).Draw(r, "by"), a.ID, fmt.Sprint("u", rapid.IntRange(1, 4).Draw(r, "user"))).Error)
	}
}
