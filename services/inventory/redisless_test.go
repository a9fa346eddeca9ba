package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/httpapi"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
	"flashsale.internal/services/inventory/internal/redisless"
	"flashsale.internal/services/inventory/internal/store"
)

// redislessSale is a sale that has been redisless for a minute, of stock units, with a limit of 2.
type redislessSale struct {
	*world
	id, sku string
	seq     int64
}

func newRedislessSale(w *world, stock int64, degraded core.DegradedSale, unlanded int64) *redislessSale {
	a := w.sale(2, stock)
	id, sku := a.ID, a.Items[0].SKUID
	s := &redislessSale{world: w, id: id, sku: sku}
	require.NoError(w.t, w.db.Exec("UPDATE activities SET degraded_per_second = ?, degraded_drop = ?, degraded_reserve = ? WHERE id = ?",
		degraded.PerSecond, degraded.Drop, degraded.Reserve, id).Error)
	now, err := w.parts.Store.Now(w.ctx)
	require.NoError(w.t, err)
	seen := now.Add(-time.Minute)
	require.NoError(w.t, w.parts.Store.NoteGates(w.ctx, seen, seen, map[string]map[string]int64{id: {sku: unlanded}}))
	s.become(contract.ModeRedisless, 1, seen)
	return s
}

// become sets the mode, as of a minute ago.
func (s *redislessSale) become(mode contract.SaleMode, outage int64, at time.Time) {
	_, err := s.parts.Store.ChangeMode(s.ctx, s.id, func(a *core.Activity, d *core.RedislessSale, _ time.Time) (bool, error) {
		a.Mode, a.Outage, a.ModeChangedAt, a.GateLacksSince = mode, outage, &at, &at
		d.HeldBack, d.Reserve = d.Unlanded, map[string]int64{s.sku: (a.Items[0].Total*a.Degraded.Reserve + 99) / 100}
		return true, nil
	})
	require.NoError(s.t, err)
}

// purchase returns a new redisless purchase with a worker id of inventory.
func (s *redislessSale) purchase(user string, qty int64) redisless.Purchase {
	s.seq++
	sn := (time.Now().UnixMilli()-1735689600000)<<22 | 230<<14 | (s.seq&63)<<8 | s.seq>>6
	return redisless.Purchase{RedislessPurchase: contract.RedislessPurchase{
		OrderSN: strconv.FormatInt(sn, 10), UserID: user, Lines: []contract.Line{{SKUID: s.sku, Qty: qty}},
	}}
}

func (s *redislessSale) reserve(purchases ...redisless.Purchase) (outcomes []string) {
	s.t.Helper()
	results, err := s.redisless.ReserveRedisless(s.ctx, s.id, 1, purchases)
	require.NoError(s.t, err)
	for _, r := range results {
		o := string(r.Outcome)
		if r.Fresh {
			o = "fresh " + o
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

func (s *redislessSale) available() int64 {
	a, err := s.parts.Store.AnyActivity(s.ctx, s.id)
	require.NoError(s.t, err)
	return a.Items[0].Available
}

func (s *redislessSale) figures() core.RedislessSale {
	all, err := s.parts.Store.RedislessSales(s.ctx, []string{s.id})
	require.NoError(s.t, err)
	return all[s.id]
}

func TestRedislessPurchasesAreDecidedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	one, two := s.purchase("a", 1), s.purchase("b", 2)
	require.Equal(t, []string{"fresh reserved", "fresh reserved"}, s.reserve(one, two))
	require.Equal(t, []string{"reserved", "reserved"}, s.reserve(one, two), "a repeated call takes nothing")
	require.Equal(t, int64(7), s.available())
	other := two
	other.UserID = "c"
	lines := two
	lines.Lines = []contract.Line{{SKUID: s.sku, Qty: 1}}
	require.Equal(t, []string{"conflict"}, s.reserve(other))
	require.Equal(t, []string{"conflict"}, s.reserve(lines))
	require.Equal(t, []string{"limit_reached", "unknown_sku"}, s.reserve(s.purchase("b", 1), redisless.Purchase{
		RedislessPurchase: contract.RedislessPurchase{OrderSN: s.purchase("d", 1).OrderSN, UserID: "d", Lines: []contract.Line{{SKUID: "999", Qty: 1}}},
	}))
	results, err := s.redisless.ReserveRedisless(s.ctx, s.id, 1, []redisless.Purchase{s.purchase("b", 1)})
	require.NoError(t, err)
	require.Equal(t, []string{two.OrderSN}, results[0].OrderSNs)
	require.Equal(t, int64(7), s.available(), "refused purchases leave no row")
}

func TestRedislessPurchasesLeaveWhatWasAcceptedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000, Reserve: 10}, 4)
	for n := range 5 {
		require.Equal(t, []string{"fresh reserved"}, s.reserve(s.purchase(fmt.Sprint("u", n), 1)))
	}
	require.Equal(t, []string{"sold_out"}, s.reserve(s.purchase("late", 1)))
	known := s.purchase("late", 1)
	known.MayBeKnown = true
	require.Equal(t, []string{"later"}, s.reserve(known), "the gate may have accepted it")

	// One that the gate has accepted since takes the reserve, and a second one nothing of what is held back.
	since := s.purchase("since", 1)
	since.Accepted, since.ReservedAt = true, time.Now().UTC()
	require.Equal(t, []string{"reserved"}, s.reserve(since))
	more := s.purchase("more", 1)
	more.Accepted, more.ReservedAt = true, time.Now().UTC()
	results, err := s.redisless.ReserveRedisless(s.ctx, s.id, 1, []redisless.Purchase{more})
	require.NoError(t, err)
	require.Equal(t, "failed", results[0].Purchase.Status)
	require.Equal(t, int64(4), s.figures().HeldBack[s.sku])

	// Those from before get all of it.
	for n := range 4 {
		early := s.purchase(fmt.Sprint("early", n), 1)
		early.Accepted, early.ReservedAt = true, s.figures().FiguresAt.Add(-time.Second)
		require.Equal(t, []string{"reserved"}, s.reserve(early))
	}
	require.Zero(t, s.available())
	require.Zero(t, s.figures().HeldBack[s.sku])
}

func TestRedislessPurchasesAreBoundedBySecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Now().UTC().Truncate(time.Second)
	w.fixed = func() time.Time { return at }
	s := newRedislessSale(w, 100, core.DegradedSale{PerSecond: 3}, 0)
	sell := func(n int) (sold int) {
		for i := range n {
			if s.reserve(s.purchase(fmt.Sprint("u", s.seq, i), 1))[0] == "fresh reserved" {
				sold++
			}
		}
		return sold
	}
	require.Equal(t, 3, sell(6))
	require.Equal(t, 0, sell(2))
	at = at.Add(time.Second)
	require.Equal(t, 3, sell(5))
}

// A buyer who has cancelled too many orders buys no more without Redis than at the gate, until the same time.
func TestTheReorderLimitHoldsWithoutRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	end := func(purchase redisless.Purchase, reason string) {
		require.NoError(t, w.db.Exec("UPDATE reservations SET state = 'released', reason = ?, changed_at = ? WHERE order_sn = ?",
			reason, w.databaseNow(), purchase.OrderSN).Error)
		require.NoError(t, w.db.Exec("UPDATE allowances SET held = 0 WHERE activity_id = ?", s.id).Error)
	}
	reserve := func(user string) (redisless.Purchase, contract.RedislessResult) {
		p := s.purchase(user, 1)
		results, err := s.redisless.ReserveRedisless(s.ctx, s.id, 1, []redisless.Purchase{p})
		require.NoError(t, err)
		return p, results[0]
	}
	for n, reason := range []string{"cancelled", "refunded", "expired", "cancelled"} { // two are allowed by default
		p, result := reserve("a")
		require.Equal(t, contract.RedislessReserved, result.Outcome, "%d", n)
		end(p, reason)
	}
	p, result := reserve("a")
	require.Equal(t, contract.RedislessLimitReached, result.Outcome)
	require.WithinDuration(t, w.databaseNow().Add(10*time.Minute), result.BarredUntil, time.Minute)
	p.MayBeKnown = true
	results, err := s.redisless.ReserveRedisless(s.ctx, s.id, 1, []redisless.Purchase{p})
	require.NoError(t, err)
	require.Equal(t, contract.RedislessLater, results[0].Outcome, "the gate may have accepted it before")
	_, result = reserve("b")
	require.Equal(t, contract.RedislessReserved, result.Outcome)
	w.shift += 11 * time.Minute
	_, result = reserve("a")
	require.Equal(t, contract.RedislessReserved, result.Outcome)
	require.NoError(t, w.db.Exec("UPDATE activities SET reorder_limit = 0 WHERE id = ?", s.id).Error)
	w.shift -= 11 * time.Minute
	_, result = reserve("a")
	require.Equal(t, contract.RedislessReserved, result.Outcome, "any number")
}

func TestNothingIsSoldRedislessAtOtherTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	now := time.Now().UTC()
	ago := now.Add(-time.Minute)
	for name, c := range map[string]struct {
		set  func()
		want string
	}{
		"gate":           {func() { s.become(contract.ModeGate, 1, ago) }, "later"},
		"returning":      {func() { s.become(contract.ModeReturning, 1, ago) }, "later"},
		"another outage": {func() { s.become(contract.ModeRedisless, 2, ago) }, "later"},
		"too early":      {func() { s.become(contract.ModeRedisless, 1, time.Now().UTC()) }, "later"},
		"paused":         {func() { s.set("state", "paused") }, "paused"},
		"not started":    {func() { s.set("starts_at", now.Add(time.Hour)) }, "not_started"},
		"ended":          {func() { s.set("ends_at", now.Add(-time.Second)) }, "ended"},
		"switched off":   {func() { s.set("degraded_per_second", 0) }, "later"},
	} {
		s.set("state", "published")
		s.set("starts_at", now.Add(-2*time.Hour))
		s.set("ends_at", now.Add(2*time.Hour))
		s.set("degraded_per_second", 1000)
		s.become(contract.ModeRedisless, 1, ago)
		c.set()
		require.Equal(t, []string{c.want}, s.reserve(s.purchase("x", 1)), name)
	}
	require.Equal(t, int64(10), s.available())
}

func (s *redislessSale) set(column string, value any) {
	require.NoError(s.t, s.db.Table("activities").Where("id = ?", s.id).Update(column, value).Error)
}

// The effects of rows that change while a sale is redisless reach the gate before the sale uses it again, and those of
// older changes that arrive meanwhile, too.
func TestTheGateGetsWhatWasSoldWithoutIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	began := time.Now().UTC().Add(-time.Minute)
	s.become(contract.ModeGate, 0, began)
	require.NoError(t, w.gates.EnsureGates(w.ctx), "the master of the gate is known")
	s.become(contract.ModeRedisless, 1, began)
	p := s.purchase("a", 2)
	require.Equal(t, []string{"fresh reserved"}, s.reserve(p))
	rows, err := w.parts.Store.Reservations(w.ctx, []string{p.OrderSN})
	require.NoError(t, err)
	row := rows[p.OrderSN]
	old := row
	old.ChangedAt = row.ChangedAt.Add(-time.Hour)
	require.NoError(t, w.syncer.Sync(w.ctx, []ledger.Row{row, old}))
	audit, err := w.gate.Audit(w.ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, int64(10), audit.SKUs[s.sku].Left, "the gate is not used")
	a, err := w.parts.Store.AnyActivity(w.ctx, s.id)
	require.NoError(t, err)
	require.WithinDuration(t, old.ChangedAt, *a.GateLacksSince, time.Millisecond)

	require.NoError(t, w.gates.EnsureGates(w.ctx), "this process has not read the gate for long enough")
	require.Equal(t, contract.ModeRedisless, s.mode())
	s.become(contract.ModeReturning, 1, time.Now().UTC())
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	require.Equal(t, contract.ModeGate, s.mode())
	audit, err = w.gate.Audit(w.ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, int64(8), audit.SKUs[s.sku].Left)
	require.Equal(t, int64(2), audit.SKUs[s.sku].Held)
}

// Redis responds again, but with a damaged gate. The sale goes on without it until the gate can be used.
func TestADamagedGateEndsNoRedislessSale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	incidents := w.incidents()
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.watch.Run(ctx, func(error) {}) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	gate, sku := gateKey(&core.Activity{ID: s.id}, "gate"), "s:"+s.sku
	require.NoError(t, w.rdb.HSet(w.ctx, gate, sku, "many").Err())
	require.Eventually(t, func() bool {
		require.NoError(t, w.gates.EnsureGates(w.ctx))
		return len(incidents.raised) > 0
	}, time.Minute, 100*time.Millisecond)
	require.Equal(t, []string{"a gate is broken"}, incidents.raised)
	for n := range 3 {
		require.Equal(t, []string{"fresh reserved"}, s.reserve(s.purchase(fmt.Sprint("u", n), 1)))
		require.NoError(t, w.gates.EnsureGates(w.ctx))
		require.Equal(t, contract.ModeRedisless, s.mode())
	}

	require.NoError(t, w.rdb.HSet(w.ctx, gate, sku, 10).Err())
	require.Eventually(t, func() bool {
		require.NoError(t, w.gates.EnsureGates(w.ctx))
		return s.mode() == contract.ModeGate
	}, time.Minute, 100*time.Millisecond)
	audit, err := w.gate.Audit(w.ctx, s.id)
	require.NoError(t, err)
	require.Equal(t, int64(7), audit.SKUs[s.sku].Left)
	require.Equal(t, int64(3), audit.SKUs[s.sku].Held)
}

func (s *redislessSale) mode() contract.SaleMode {
	a, err := s.parts.Store.AnyActivity(s.ctx, s.id)
	require.NoError(s.t, err)
	return a.Mode
}

// A withdrawal is decided once the gate has what was sold without it.
func TestWithdrawalsWaitForTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000}, 0)
	adjust := func(key string, delta int64) error {
		_, err := w.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
			ActivityID: s.id, SKUID: s.sku, Delta: delta, Reason: "r",
			Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: key},
		})
		return err
	}
	require.Equal(t, contract.CodeGateUnavailable, contract.CodeOf(adjust("less", -3)))
	require.Equal(t, int64(10), s.available())
	s.become(contract.ModeGate, 1, time.Now().UTC())
	require.NoError(t, adjust("less", -3))
	require.Equal(t, int64(7), s.available())
}

func TestFiguresStayWhileASaleIsRedisless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1}, 4)
	before := s.figures()
	now := before.SeenAt.Add(time.Second)
	require.NoError(t, w.parts.Store.NoteGates(w.ctx, now, now, map[string]map[string]int64{s.id: nil}))
	after := s.figures()
	require.Equal(t, now, after.SeenAt)
	require.Equal(t, before.FiguresAt, after.FiguresAt)
	require.Equal(t, before.Unlanded, after.Unlanded)
	s.become(contract.ModeGate, 1, now)
	now = now.Add(time.Second)
	require.NoError(t, w.parts.Store.NoteGates(w.ctx, now, now, map[string]map[string]int64{s.id: nil}))
	require.Equal(t, now, s.figures().FiguresAt)
	require.Empty(t, s.figures().Unlanded)
	require.NoError(t, w.parts.Store.NoteGates(w.ctx, before.SeenAt, before.SeenAt, map[string]map[string]int64{s.id: nil}))
	require.Equal(t, now, s.figures().SeenAt, "an older reading changes nothing")
}

// A sale that is published has its first reading: Redis may fail before a process reads the gate.
func TestAPublicationIsTheFirstReading(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, degraded := range []bool{true, false} {
		a := w.draft(2, 10)
		if degraded {
			_, err := w.merchants.PatchActivity(w.ctx, seller("m"), a.ID, merchants.ActivityPatch{
				SetDegraded: true, Degraded: &core.DegradedSale{PerSecond: 5, Reserve: 1},
			})
			require.NoError(t, err)
		}
		before, err := w.parts.Store.Now(w.ctx)
		require.NoError(t, err)
		for range 2 {
			_, err = w.merchants.Publish(w.ctx, seller("m"), a.ID)
			require.NoError(t, err)
		}
		read, err := w.parts.Store.RedislessSales(w.ctx, []string{a.ID})
		require.NoError(t, err)
		if !degraded {
			require.Empty(t, read)
			continue
		}
		require.False(t, read[a.ID].SeenAt.Before(before.Truncate(time.Millisecond)))
		require.True(t, read[a.ID].FiguresAt.Before(before))
		require.Empty(t, read[a.ID].Unlanded)
	}
}

func TestWorkerLeases(t *testing.T) {
	t.Parallel()
	db := dbtest.MariaDB(t, Migrations)
	at := time.Now().UTC().Truncate(time.Millisecond)
	s := store.New(db, store.WithClock(func() time.Time { return at }))
	ids := redisless.Workers()
	ids.End = ids.First + 2
	lease := func(r contract.WorkerLease) contract.LeasedWorker {
		l, err := s.LeaseWorker(t.Context(), ids, r)
		require.NoError(t, err)
		return l
	}
	a := lease(contract.WorkerLease{Owner: "a"})
	require.Equal(t, 224, a.Worker)
	require.Greater(t, a.From, a.High, "only a renewal permits to issue")
	require.Equal(t, a.Worker, lease(contract.WorkerLease{Owner: "a"}).Worker, "a lost response")
	b := lease(contract.WorkerLease{Owner: "b"})
	require.Equal(t, 225, b.Worker)
	require.Equal(t, 2, b.Holders)
	require.Equal(t, -1, lease(contract.WorkerLease{Owner: "c"}).Worker)
	at = at.Add(ids.Term)
	renewed := lease(contract.WorkerLease{Owner: "a", Worker: 224, Renew: true})
	require.Equal(t, at.Add(ids.Term).UnixMilli(), renewed.High)
	require.Zero(t, lease(contract.WorkerLease{Owner: "a", Worker: 225, Renew: true}).High, "the id of another owner")
	at = at.Add(ids.Term + time.Millisecond)
	c := lease(contract.WorkerLease{Owner: "c", Seen: at.Add(time.Hour).UnixMilli()})
	require.Equal(t, 225, c.Worker, "one term after its last high-water mark")
	require.Greater(t, c.From, b.High)
	require.Greater(t, c.From, at.Add(time.Hour).UnixMilli())
	require.Zero(t, lease(contract.WorkerLease{Owner: "b", Worker: 225, Renew: true}).High)
}

// However many processes request an id at the same moment, no two get the same.
func TestWorkerIDsAreLeasedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, Migrations, func(t *testing.T, db *gorm.DB) {
		s := store.New(db)
		for round := range 2 { // free ids, then those whose leases have ended
			var processes sync.WaitGroup
			leases, errs := make([]contract.LeasedWorker, 16), make([]error, 16)
			for n := range leases {
				processes.Go(func() {
					r := contract.WorkerLease{Owner: fmt.Sprint(round, n)}
					leases[n], errs[n] = s.LeaseWorker(t.Context(), redisless.Workers(), r)
				})
			}
			processes.Wait()
			require.NoError(t, errors.Join(errs...))
			taken := map[int]bool{}
			for _, l := range leases {
				require.GreaterOrEqual(t, l.Worker, redisless.Workers().First)
				require.False(t, taken[l.Worker], "two processes have the id %d", l.Worker)
				taken[l.Worker] = true
			}
			require.NoError(t, db.Exec("UPDATE worker_leases SET high_ms = high_ms - 10000").Error)
		}
	})
}

func TestDegradedSaleOfAnActivity(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	sku := s.product("EUR")[0]
	body := func(degraded string) string {
		now := time.Now().UTC()
		return fmt.Sprintf(`{"title":"t","starts_at":%q,"ends_at":%q,"items":[{"sku_id":%q,"price":1,"stock":5}]%s}`,
			now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), sku, degraded)
	}
	for degraded, field := range map[string]string{
		`{}`:                             "degraded_sale.per_second",
		`{"per_second":0}`:               "degraded_sale.per_second",
		`{"per_second":100001}`:          "degraded_sale.per_second",
		`{"per_second":1.5}`:             "degraded_sale.per_second",
		`{"per_second":1,"drop":100}`:    "degraded_sale.drop",
		`{"per_second":1,"drop":-1}`:     "degraded_sale.drop",
		`{"per_second":1,"reserve":101}`: "degraded_sale.reserve",
		`{"per_second":1,"burst":1}`:     "degraded_sale.burst",
		`true`:                           "degraded_sale",
	} {
		got := s.do("POST", "/v1/merchant/activities", body(`,"degraded_sale":`+degraded))
		require.Equal(t, http.StatusBadRequest, got.status, degraded)
		require.Equal(t, field, got.field(), degraded)
	}
	created := s.do("POST", "/v1/merchant/activities", body(`,"degraded_sale":{"per_second":7}`))
	require.Equal(t, http.StatusCreated, created.status, "%s", created.body)
	var a struct {
		ID       string `json:"activity_id"`
		Mode     string
		Degraded *struct {
			PerSecond int64 `json:"per_second"`
			Drop      int64
			Reserve   int64
		} `json:"degraded_sale"`
	}
	read := func(raw []byte) {
		a.Degraded = nil
		require.NoError(t, json.Unmarshal(raw, &a))
	}
	read(created.body)
	require.Equal(t, "gate", a.Mode)
	require.Equal(t, int64(7), a.Degraded.PerSecond)
	require.Equal(t, int64(0), a.Degraded.Drop)
	require.Equal(t, int64(1), a.Degraded.Reserve)
	at := "/v1/merchant/activities/" + a.ID
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	published := func() bool {
		sale, err := s.gate.Sale(t.Context(), a.ID)
		require.NoError(t, err)
		return sale.DegradedSale
	}
	require.True(t, published())
	changed := s.do("PATCH", at, `{"degraded_sale":{"per_second":9,"drop":50,"reserve":0}}`)
	require.Equal(t, 200, changed.status, "%s", changed.body)
	read(changed.body)
	require.Equal(t, int64(9), a.Degraded.PerSecond)
	require.Equal(t, int64(50), a.Degraded.Drop)
	require.Zero(t, a.Degraded.Reserve)
	read(s.do("PATCH", at, `{"title":"u"}`).body)
	require.NotNil(t, a.Degraded, "an absent field changes nothing")
	read(s.do("PATCH", at, `{"degraded_sale":null}`).body)
	require.Nil(t, a.Degraded)
	require.False(t, published())
	require.Contains(t, string(s.do("GET", at+"/board", "").body), `"mode":"gate"`)
}

// The board shows whether a sale would go on if Redis failed now, in its first event and in the later ones, and also
// while Redis has failed and the sale cannot go on.
func TestTheBoardShowsWhetherASaleCouldGoOnWithoutRedis(t *testing.T) {
	t.Parallel()
	s, at, id, sku := selling(t, 10)
	s.svc.board.Interval = 20 * time.Millisecond
	type view struct {
		Mode      string
		Readiness string `json:"degraded_readiness"`
		Units     struct{ Left int64 }
	}
	read := func() (v view) {
		got := s.do("GET", at+"/board", "")
		require.Equal(t, 200, got.status, "%s", got.body)
		got.into(t, &v)
		return v
	}
	becomes := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return read().Readiness == want }, 10*time.Second, 20*time.Millisecond, want)
	}
	set := func(degraded string) {
		require.Equal(t, 200, s.do("PATCH", at, `{"degraded_sale":`+degraded+`}`).status)
	}
	require.Equal(t, "off", read().Readiness)
	set(`{"per_second":5}`) // after the publication: its gate was not read yet
	becomes("unread")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.svc.watch.Run(ctx, func(error) {}) }()
	becomes("ready")
	cancel()
	require.NoError(t, <-ended)

	url, stop := s.serve()
	defer stop()
	events := s.events(url + at + "/board/events")
	next := func() (v view) {
		for e := range events {
			if e[0] == "board" || e[0] == "point" {
				require.NoError(t, json.Unmarshal([]byte(e[1]), &v))
				return v
			}
		}
		t.Fatal("the stream has ended")
		return v
	}
	seen := func(at time.Time) {
		require.NoError(t, s.db.Exec("UPDATE redisless_sales SET seen_at = ? WHERE activity_id = ?", at.UTC(), id).Error)
	}
	seen(time.Now())
	for next().Readiness != "ready" { // the last reading may have become too old on the way here
	}
	seen(time.Now().Add(-time.Minute)) // no process of inventory has read the gate since
	for next().Readiness != "outdated" {
	}
	becomes("outdated")
	s.mini.SetError("LOADING Redis is loading the dataset in memory")
	require.Equal(t, view{"gate", "outdated", struct{ Left int64 }{10}}, read())
	for range 3 {
		require.Equal(t, "outdated", next().Readiness)
	}
	s.mini.SetError("")

	require.Equal(t, 200, s.do("POST", at+"/end", "").status)
	becomes("inactive")
	draft := "/v1/merchant/activities/" + s.draft(sku, 3)
	require.Equal(t, 200, s.do("PATCH", draft, `{"degraded_sale":{"per_second":5}}`).status)
	at = draft
	require.Equal(t, "inactive", read().Readiness)
	require.Equal(t, 200, s.do("POST", at+"/publish", "").status)
	becomes("ready") // by its publication
}

// A process that stops publishes the deductions of its redisless purchases. Without the broker it leaves them to the
// sweep.
func TestDeductionsOfRedislessPurchasesArePublishedAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 20, core.DegradedSale{PerSecond: 1000}, 0)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for n := range 10 {
		require.Equal(t, []string{"fresh reserved"}, s.reserve(s.purchase(strconv.Itoa(n), 1)))
	}
	require.NoError(t, w.redisless.PublishLater(stopped, t.Context()))
	require.Len(t, w.broker.take(contract.TopicDeductions), 10)

	w.broker.setDown(true)
	for n := range 10 {
		require.Equal(t, []string{"fresh reserved"}, s.reserve(s.purchase("b"+strconv.Itoa(n), 1)))
	}
	require.NoError(t, w.redisless.PublishLater(stopped, t.Context()))
	w.broker.setDown(false)
	require.Empty(t, w.broker.take(contract.TopicDeductions))
}

// lostHoldings is a store that cannot read the purchases of a buyer.
type lostHoldings struct{ redisless.Rows }

func (lostHoldings) ReservationsOfActivity(
	context.Context, core.Scope, string, core.ReservationFilter, core.Page,
) ([]ledger.Row, error) {
	return nil, errors.New("connection lost")
}

// A purchase whose transaction has committed gets its deduction, also if its call fails afterwards.
func TestDeductionsOfRedislessPurchasesSurviveAFailedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 20, core.DegradedSale{PerSecond: 1000}, 0)
	require.Equal(t, []string{"fresh reserved"}, s.reserve(s.purchase("a", 2)))
	svc := w.parts.with(func(p *ports) { p.sold = lostHoldings{p.sold} }).start().redisless
	sold := s.purchase("b", 1)
	_, err := svc.ReserveRedisless(w.ctx, s.id, 1, []redisless.Purchase{s.purchase("a", 1), sold})
	require.Error(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, svc.PublishLater(stopped, t.Context()))
	require.Contains(t, w.deductions(), sold.OrderSN)
}

func TestInternalCallsOfRedislessSales(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newRedislessSale(w, 10, core.DegradedSale{PerSecond: 1000, Drop: 3}, 2)
	const secret = "a secret for tests only, of length"
	h := httpapi.NewInternal(w.redisless, telemetry.Discard(nil), []string{secret}, http.NotFoundHandler(), sqldb.IsTransient)
	call := func(method, path, body string, out any) int {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		auth.SignInternal(r, secret)
		r.Header.Set("Content-Type", "application/json")
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		if out != nil {
			require.NoError(t, json.Unmarshal(got.Body.Bytes(), out), "%s", got.Body)
		}
		return got.Code
	}
	var modes contract.Modes
	require.Equal(t, 200, call("GET", contract.ModesPath+"?lost="+s.id+":4000", "", &modes))
	require.Len(t, modes.Activities, 1)
	m := modes.Activities[0]
	require.Equal(t, contract.ModeRedisless, m.Mode)
	require.Equal(t, int64(3), m.Drop)
	require.Equal(t, int64(8), m.Sale.Items[0].Left)
	for _, entry := range []string{"x", s.id + ":-1", s.id + ":200000000"} { // the last one is over two days
		require.Equal(t, 200, call("GET", contract.ModesPath+"?lost="+entry, "", &modes), entry)
		require.Len(t, modes.Activities, 1)
	}
	p := s.purchase("a", 1)
	body := fmt.Sprintf(`{"activity_id":%q,"outage":1,"items":[{"order_sn":%q,"user_id":"a","lines":[{"sku_id":%q,"qty":1}]}]}`, s.id, p.OrderSN, s.sku)
	var results contract.RedislessResults
	require.Equal(t, 200, call("POST", contract.ReservePath, body, &results))
	require.Equal(t, contract.RedislessReserved, results.Results[0].Outcome)
	require.True(t, results.Results[0].Fresh)
	var found contract.RedislessStates
	require.Equal(t, 200, call("POST", contract.LookupPath, fmt.Sprintf(`{"activity_id":%q,"order_sns":[%q,"7"]}`, s.id, p.OrderSN), &found))
	require.Len(t, found.Purchases, 1)
	require.Equal(t, "queued", found.Purchases[0].Status)
	require.Equal(t, 200, call("POST", contract.LookupPath, fmt.Sprintf(`{"activity_id":%q,"user_id":"a"}`, s.id), &found))
	require.Len(t, found.Purchases, 1)
	for _, wrong := range []string{
		`{}`, `{"activity_id":"1","outage":1,"items":[]}`,
		`{"activity_id":"1","outage":1,"items":[{"order_sn":"x","user_id":"a","lines":[{"sku_id":"1","qty":1}]}]}`,
		strings.Replace(body, `"user_id":"a"`, `"user_id":"a b"`, 1), strings.Replace(body, `"qty":1`, `"qty":0`, 1),
	} {
		require.Equal(t, 400, call("POST", contract.ReservePath, wrong, nil), wrong)
	}
	require.Equal(t, 400, call("POST", contract.LeasePath, `{"owner":""}`, nil))
}
