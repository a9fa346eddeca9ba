package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/consumer"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gate"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/merchants"
)

// slowBuilds delays each step of a build after the first, and counts the builds that began.
type slowBuilds struct {
	delay  time.Duration
	begun  atomic.Int32
	refuse atomic.Bool // fail all calls of locks
}

func (s *slowBuilds) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowBuilds) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slowBuilds) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if s.refuse.Load() && strings.Contains(fmt.Sprint(args...), "fs:lock:") {
			return errors.New("locks are unreachable")
		}
		if n := slices.Index(args, any("begin")); n > 0 && cmd.Name() == "evalsha" {
			err := next(ctx, cmd)
			if c, ok := cmd.(*redis.Cmd); ok && c.Val() == "ok" { // no gate was live
				s.begun.Add(1)
			}
			return err
		} else if slices.ContainsFunc(args, func(a any) bool { return a == "held" || a == "put" }) {
			select {
			case <-time.After(s.delay):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return next(ctx, cmd)
	}
}

// fillLedger inserts n sold rows of one unit each, and takes their units from the stock.
func (w *world) fillLedger(a *core.Activity, n int, changed time.Time) {
	w.t.Helper()
	lines := fmt.Sprintf(`[{"sku_id":%q,"qty":1}]`, a.Items[0].SKUID)
	for from := 0; from < n; from += 500 {
		var rows, allowances []map[string]any
		for i := from; i < min(n, from+500); i++ {
			user := fmt.Sprint("old", i)
			rows = append(rows, map[string]any{
				"order_sn": newSN(), "activity_id": a.ID, "user_id": user, "line_items": lines, "state": "sold", "reason": "",
				"reserved_at": changed, "landed_at": changed, "order_created_at": changed, "expires_at": changed, "changed_at": changed, "republish_attempt": 0, "traceparent": "",
			})
			allowances = append(allowances, map[string]any{"activity_id": a.ID, "user_id": user, "held": 1})
		}
		require.NoError(w.t, w.db.Table("reservations").Create(&rows).Error)
		require.NoError(w.t, w.db.Table("allowances").Create(&allowances).Error)
	}
	require.NoError(w.t, w.db.Exec("UPDATE stocks SET available = available - ?, sold = sold + ? WHERE activity_id = ? AND sku_id = ?", n, n, a.ID, a.Items[0].SKUID).Error)
}

// long is a time at which no row of a test changed, and from which on its entries are kept.
func long() time.Time { return time.Now().UTC().Add(-time.Hour).Truncate(time.Millisecond) }

// loseGate deletes all keys of the gate.
func (w *world) loseGate() {
	w.t.Helper()
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
}

// A build takes longer than its callers can wait, as with a million rows and the 30 s of a message. It is begun once
// nevertheless, and the callers go on once it is finished.
func TestConcurrentCallersBeginASlowBuildOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5000)
	w.fillLedger(a, 2600, long())
	waiting := w.buy(a, "new")
	w.loseGate()
	slow := &slowBuilds{delay: 100 * time.Millisecond} // in eleven steps
	w.rdb.AddHook(slow)
	p := w.parts
	p.BuildLocks = locks{lock.New(w.rdb, w.tel.Log)} // another process has its own
	other := consumer.New(p.start().core, w.tel, w.parts.Now)
	waiters := []*consumer.Consumer{w.consumer, w.consumer, other}
	errs := make([]error, len(waiters))
	var wg sync.WaitGroup
	for i, c := range waiters {
		wg.Go(func() {
			end := time.Now().Add(time.Minute)
			for {
				ctx, cancel := context.WithTimeout(w.ctx, 500*time.Millisecond)
				errs[i] = c.Reservations(ctx, message(t, contract.TopicReservations, waiting))
				cancel()
				if errs[i] == nil || time.Now().After(end) {
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	w.agree(a)
	require.EqualValues(t, 1, slow.begun.Load(), "one build: the second process waits for the lock of the first one")
}

// Without locks the gate is built all the same.
func TestABuildNeedsNoLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 10)
	w.land(w.buy(a, "u1"))
	w.loseGate()
	slow := &slowBuilds{}
	slow.refuse.Store(true)
	w.rdb.AddHook(slow)
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	require.EqualValues(t, 1, slow.begun.Load())
	w.agree(a)
}

// Several processes without locks build the same gate: of two builds one fails, and the gate is right.
func TestConcurrentBuildsDoNotMix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.BuildLocks, w.parts.Build.Page = nil, 7
	for range 5 {
		a := w.sale(1, 100)
		w.fillLedger(a, 60, long())
		w.loseGate()
		var wg sync.WaitGroup
		for range 3 {
			p := w.parts.start()
			wg.Go(func() { _ = p.syncer.Fill(w.ctx, a.ID) })
		}
		wg.Wait()
		require.NoError(t, w.gates.EnsureGates(w.ctx))
		w.agree(a)
	}
}

// The end of the process ends the build. What it has written does not mix with the next one.
func TestTheEndOfTheProcessEndsTheBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(1, 5000)
	w.fillLedger(a, 1200, long())
	w.loseGate()
	slow := &slowBuilds{delay: time.Hour}
	w.rdb.AddHook(slow)
	p := w.parts.start()
	ctx, end := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, p.syncer.Run(ctx)) })
	failed := make(chan error, 1)
	wg.Go(func() { failed <- p.syncer.Fill(w.ctx, a.ID) })
	require.Eventually(t, func() bool { return slow.begun.Load() == 1 }, time.Minute, time.Millisecond)
	end()
	require.Error(t, <-failed)
	wg.Wait()
	require.ErrorIs(t, p.syncer.Fill(w.ctx, a.ID), core.ErrGateUnavailable, "none begins any more")
	slow.delay = 0
	require.NoError(t, w.gates.EnsureGates(w.ctx))
	w.agree(a)
}

func TestKilledWhileBuilding(t *testing.T) {
	t.Parallel()
	killedEverywhere(t, func(w *world) (func() error, func()) {
		if w.parts.Build.Page != 2 {
			w.parts.Build.Page = 2
			w.restart()
		}
		a := w.sale(2, 20)
		bought := w.everyState(a)
		w.loseGate()
		return func() error { return w.syncer.Fill(w.ctx, a.ID) }, func() {
			w.agree(a)
			w.same(a)
			require.NotEmpty(t, bought)
		}
	})
}

// everyState makes purchases in each state of the ledger.
func (w *world) everyState(a *core.Activity) []contract.Reservation {
	w.t.Helper()
	var r []contract.Reservation
	for i := range 6 {
		r = append(r, w.buy(a, fmt.Sprint("u", i)))
	}
	w.land(r...)
	w.follow(event(r[1], contract.OrderCreated), event(r[2], contract.OrderPaid), event(r[3], contract.OrderClosed), event(r[4], contract.OrderPaid))
	w.orders.set("refunded", r[4].OrderSN)
	require.NoError(w.t, w.consumer.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, contract.OrderClose{OrderSNs: []string{r[4].OrderSN}, ActivityID: a.ID, DueAt: time.Now()})))
	tooMany := contract.Reservation{OrderSN: newSN(), UserID: "greedy", ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 3}}, ReservedAt: w.parts.Now()}
	w.land(tooMany)
	return append(r, tooMany)
}

// content is a gate as it can be read: everything that a build writes, without the order of lists and the build's
// token.
type content struct {
	gate     map[string]string
	entries  map[string]string
	buyers   map[string]string
	unlanded []string
	ended    []redis.Z
	adjusted map[string]string
}

func (w *world) content(a *core.Activity) content {
	w.t.Helper()
	key := func(name string) string { return "fs:{" + a.ID + "}:" + name }
	c := content{
		gate: w.rdb.HGetAll(w.ctx, key("gate")).Val(), entries: w.rdb.HGetAll(w.ctx, key("held")).Val(),
		buyers: w.rdb.HGetAll(w.ctx, key("buyers")).Val(), unlanded: w.rdb.ZRange(w.ctx, key("unlanded"), 0, -1).Val(),
		ended: w.rdb.ZRangeWithScores(w.ctx, key("ended"), 0, -1).Val(), adjusted: w.rdb.HGetAll(w.ctx, key("adjusted")).Val(),
	}
	require.NotEmpty(w.t, c.gate)
	delete(c.gate, "life")
	for field := range c.gate {
		if strings.HasPrefix(field, "x:") { // the latest deadline that was ever known
			delete(c.gate, field)
		}
	}
	for sn, stored := range c.entries {
		f := strings.Split(stored, "|")
		if f[0] == "x" || f[0] == "f" { // the end by Redis time, and what no buyer sees
			f[4], f[5] = "", ""
		}
		f[6], f[8] = "", "" // an adopted entry has neither
		c.entries[sn] = strings.Join(f, "|")
	}
	for id := range c.adjusted { // applied, or decided before the build
		c.adjusted[id] = ""
	}
	for user, stored := range c.buyers {
		f := strings.Split(stored, "|")
		for i := range f {
			sns := strings.Split(f[i], ",")
			slices.Sort(sns)
			f[i] = strings.Join(sns, ",")
		}
		c.buyers[user] = strings.Join(f, "|")
	}
	for i := range c.ended {
		c.ended[i].Score = 0
	}
	slices.SortFunc(c.ended, func(a, b redis.Z) int { return strings.Compare(a.Member.(string), b.Member.(string)) })
	return c
}

// same checks that the gate is as one that is built from the tables at rest.
func (w *world) same(a *core.Activity) {
	w.t.Helper()
	built := w.content(a)
	w.loseGate()
	p := w.parts
	p.Gate, p.replaced = &faultyGate{gate.New(w.gate), &faults{}}, nil
	p.Build = gates.DefaultBuildConfig()
	require.NoError(w.t, p.start().syncer.Fill(w.ctx, a.ID))
	require.Equal(w.t, w.content(a), built)
}

// watchedGate calls before with the name of each step of a build, before the step.
type watchedGate struct {
	gates.Effects
	before func(step string)
}

func (g *watchedGate) BeginBuild(ctx context.Context, activityID string) (gates.Build, error) {
	g.before("begin")
	b, err := g.Effects.BeginBuild(ctx, activityID)
	return &watchedBuild{b, g}, err
}

type watchedBuild struct {
	gates.Build
	g *watchedGate
}

func (b *watchedBuild) Put(ctx context.Context, rows []ledger.Row) error {
	b.g.before("put")
	return b.Build.Put(ctx, rows)
}

func (b *watchedBuild) PutAdjusted(ctx context.Context, ids []string) error {
	b.g.before("adjusted")
	return b.Build.PutAdjusted(ctx, ids)
}

func (b *watchedBuild) Commit(ctx context.Context, a core.Activity, endedBefore int64, e gates.GateEpoch) error {
	b.g.before("commit")
	return b.Build.Commit(ctx, a, endedBefore, e)
}

// inBuild makes the process of this world call fn once, before the n-th step of the next build with this name.
// The locked step holds the stock, so fn must not write in it.
func (w *world) inBuild(step string, n int, fn func()) {
	watched := &watchedGate{gate.New(w.gate), func(s string) {
		if s == step {
			if n--; n == 0 {
				fn()
			}
		}
	}}
	w.parts = w.parts.with(func(p *ports) { p.gate = watched })
	w.restart()
}

// uncommitted inserts a row as if its transaction had stamped it so long ago.
func (w *world) uncommitted(a *core.Activity, ago time.Duration) {
	w.t.Helper()
	at := time.Now().Add(-ago).UTC().Truncate(time.Millisecond)
	row := ledger.Row{
		OrderSN: newSN(), ActivityID: a.ID, UserID: "late", Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}},
		State: ledger.StateReserved, ReservedAt: at, LandedAt: at, ChangedAt: at, RepublishAt: &at,
	}
	require.NoError(w.t, w.parts.Store.Ledger(w.ctx, []string{a.ID}, func(tx core.LedgerTx) error {
		return tx.Apply(&ledger.Moves{
			Insert: []ledger.Row{row}, Allowances: map[ledger.Buyer]int64{{ActivityID: a.ID, UserID: "late"}: 1},
			Stocks: map[ledger.Shelf]ledger.StockDelta{{ActivityID: a.ID, SKUID: a.Items[0].SKUID}: {Available: -1, Reserved: 1}},
		})
	}))
}

// Rows that change during the build, in any way and at any step, are in the gate once it exists, also those whose
// transactions commit long after they were stamped.
func TestABuildFollowsRowsThatChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Build.Page = 2
	for _, step := range []string{"begin", "put", "adjusted"} {
		for n := 1; n <= 4 && (n == 1 || step == "put"); n++ {
			a := w.sale(2, 20, 5)
			r := w.everyState(a)
			fresh := w.buy(a, "fresh")
			w.loseGate()
			quiet := w.parts // a process that writes the tables, and whose calls of the gate fail
			quiet.Gate, quiet.replaced = &faultyGate{w.parts.Gate.Gate, &faults{dead: true}}, nil
			other := quiet.start()
			events := consumer.New(other.core, w.tel, w.parts.Now)
			change := func() {
				_ = events.Reservations(w.ctx, message(w.t, contract.TopicReservations, fresh))
				_ = events.OrderEvents(w.ctx, message(w.t, contract.TopicOrderEvents,
					event(r[0], contract.OrderCreated), event(r[1], contract.OrderPaid), event(r[5], contract.OrderClosed), event(fresh, contract.OrderPaid)))
				w.orders.set("refunded", r[2].OrderSN)
				_ = events.OrderClose(w.ctx, message(w.t, contract.TopicOrderClose, contract.OrderClose{OrderSNs: []string{r[2].OrderSN}, ActivityID: a.ID, DueAt: time.Now()}))
				_, _ = other.merchants.AdjustStock(w.ctx, seller("m"), merchants.AdjustmentRequest{
					ActivityID: a.ID, SKUID: a.Items[1].SKUID, Delta: 3, Reason: "r", Key: core.IdempotencyKey{Caller: "m", Method: "POST", Path: "/x", Value: newSN()},
				})
			}
			w.inBuild(step, n, change)
			require.NoError(w.t, w.syncer.Fill(w.ctx, a.ID))
			for sn, want := range map[string]ledger.State{
				fresh.OrderSN: ledger.StateSold, r[1].OrderSN: ledger.StateSold, r[5].OrderSN: ledger.StateReleased, r[2].OrderSN: ledger.StateReleased,
			} {
				require.Equal(w.t, want, w.row(sn).State, "%s %d", step, n)
			}
			require.Equal(w.t, int64(8), w.stock(a)[1].Total)
			w.agree(a)
			w.same(a)
		}
	}
}

func TestABuildFindsLateCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Build.Page = 2
	for _, ago := range []time.Duration{time.Second, time.Minute, time.Hour, 30 * time.Hour} {
		a := w.sale(2, 20)
		w.everyState(a)
		w.loseGate()
		w.inBuild("adjusted", 1, func() { w.uncommitted(a, ago) })
		require.NoError(w.t, w.syncer.Fill(w.ctx, a.ID), "%s", ago)
		w.agree(a)
		w.same(a)
	}
}

// Tables that contradict each other make no gate.
func TestABuildWithoutAgreementFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sale(2, 20)
	w.everyState(a)
	w.loseGate()
	require.NoError(t, w.db.Exec("UPDATE stocks SET available = available - 1, sold = sold + 1 WHERE activity_id = ?", a.ID).Error)
	err := w.syncer.Fill(w.ctx, a.ID)
	require.ErrorIs(t, err, core.ErrGateBroken)
	require.ErrorContains(t, err, "SKU")
	_, err = w.gate.Audit(w.ctx, a.ID)
	require.ErrorIs(t, err, stockgate.ErrNoGate)
	require.NoError(t, w.db.Exec("UPDATE stocks SET available = available + 1, sold = sold - 1 WHERE activity_id = ?", a.ID).Error)
	require.NoError(t, w.syncer.Fill(w.ctx, a.ID))
	w.agree(a)
}

// stuckBuild does not commit the first times.
type stuckBuild struct {
	gates.Build
	times *int
	held  *[]time.Duration
}

func (b *stuckBuild) Commit(ctx context.Context, a core.Activity, endedBefore int64, e gates.GateEpoch) error {
	if *b.times--; *b.times < 0 {
		return b.Build.Commit(ctx, a, endedBefore, e)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return errors.New("the last step has no deadline")
	}
	*b.held = append(*b.held, time.Until(deadline))
	<-ctx.Done()
	return fmt.Errorf("%w: %w", core.ErrGateUnavailable, ctx.Err())
}

type stuckGate struct {
	gates.Effects
	times int
	held  []time.Duration
}

func (g *stuckGate) BeginBuild(ctx context.Context, activityID string) (gates.Build, error) {
	b, err := g.Effects.BeginBuild(ctx, activityID)
	return &stuckBuild{b, &g.times, &g.held}, err
}

// A Redis that does not respond in the last step does not lock the stock for longer than it may be locked.
func TestTheStockIsLockedForAMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := &stuckGate{times: 2}
	w.parts = w.parts.with(func(p *ports) { g.Effects, p.gate = p.gate, g })
	w.parts.Build.Locked = 100 * time.Millisecond
	a := w.sale(2, 20)
	w.everyState(a)
	w.loseGate()
	w.restart()
	require.NoError(t, w.syncer.Fill(w.ctx, a.ID))
	require.Len(t, g.held, 2)
	for _, held := range g.held {
		require.LessOrEqual(t, held, w.parts.Build.Locked)
	}
	w.agree(a)
	require.LessOrEqual(t, gates.DefaultBuildConfig().Locked, time.Second)
}

// More rows change between the last reading and the lock than the locked step may read.
func TestALockedStepThatIsTooLargeIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.parts.Build.LockedRows = 2
	a := w.sale(2, 20)
	w.loseGate()
	rebuilds := 0
	before := func() {
		if rebuilds++; rebuilds == 1 {
			for i := range 5 {
				w.uncommittedNow(a, fmt.Sprint("b", i))
			}
		}
	}
	w.parts = w.parts.with(func(p *ports) { p.rows = &eagerRows{p.rows, before} })
	w.restart()
	require.NoError(t, w.syncer.Fill(w.ctx, a.ID))
	require.Equal(t, 2, rebuilds)
	w.agree(a)
}

// eagerRows calls before before each locked step.
type eagerRows struct {
	gates.Rows
	before func()
}

func (s *eagerRows) Rebuild(ctx context.Context, id string, fn func(gates.RebuildTx) error) error {
	s.before()
	return s.Rows.Rebuild(ctx, id, fn)
}

// uncommittedNow lands a purchase that the gate does not have.
func (w *world) uncommittedNow(a *core.Activity, user string) {
	w.t.Helper()
	it := contract.Reservation{OrderSN: newSN(), UserID: user, ActivityID: a.ID, Lines: []contract.Line{{SKUID: a.Items[0].SKUID, Qty: 1}}, ReservedAt: w.parts.Now()}
	p := w.parts
	p.Gate, p.replaced = &faultyGate{p.Gate.Gate, &faults{dead: true}}, nil
	_ = consumer.New(p.start().core, w.tel, w.parts.Now).Reservations(w.ctx, message(w.t, contract.TopicReservations, it))
	require.Equal(w.t, ledger.StateReserved, w.row(it.OrderSN).State)
}

// A gate that is built while any history runs is, at rest, the gate that is built from the final tables.
func TestAGateBuiltDuringAConcurrentHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.parts
	rapid.Check(t, func(r *rapid.T) {
		w.faults.heal()
		w.parts = base
		w.parts.Build.Page, w.parts.Build.LockedRows = rapid.IntRange(1, 5).Draw(r, "page"), rapid.IntRange(1, 5).Draw(r, "locked rows")
		w.restart()
		a := w.sale(2, 12, 4)
		h := &history{world: w, a: a, limit: 2}
		for range rapid.IntRange(1, 6).Draw(r, "purchases") {
			h.buySome(r)
		}
		steps := map[string]func(*rapid.T){"deliver": h.deliver, "event": h.orderStep, "due": h.due, "adjust": h.adjust}
		names := []string{"adjust", "deliver", "deliver", "deliver", "due", "event", "event"}
		play := func(n int) {
			for range n {
				func() {
					defer func() { // rapid's Skip would end the whole check
						if p := recover(); p != nil && fmt.Sprintf("%T", p) != "rapid.invalidData" {
							panic(p)
						}
					}()
					steps[rapid.SampledFrom(names).Draw(r, "step")](r)
				}()
			}
		}
		play(rapid.IntRange(0, 12).Draw(r, "before"))
		w.loseGate()
		// The changes during the build come from another process, whose calls of the gate fail until the end.
		during, at := rapid.IntRange(0, 8).Draw(r, "during"), rapid.IntRange(1, 5).Draw(r, "at")
		reached, resume, built := make(chan bool), make(chan bool), make(chan error, 1)
		locked := false // then others wait for the build
		builder := w.parts.with(func(p *ports) {
			p.rows = &eagerRows{p.rows, func() { locked = true }}
			p.gate = &watchedGate{p.gate, func(string) {
				if at--; at == 0 && !locked {
					reached <- true
					<-resume
				}
			}}
		})
		go func() { built <- builder.start().syncer.Fill(w.ctx, a.ID) }()
		select {
		case <-reached:
			w.parts.Gate = &faultyGate{w.parts.Gate.Gate, &faults{dead: true}}
			w.restart()
			play(during)
			w.parts.Gate = base.Gate
			w.restart()
			close(resume)
			require.NoError(r, <-built)
		case err := <-built:
			require.NoError(r, err)
		}
		h.finish(r)
		w.same(a)
	})
}

// losingGate is a gate whose Redis loses data after a sale was shown.
type losingGate struct {
	gates.Effects
	gates.Redis
	lose   func()
	master string // replication id from then on, if it changes
}

func (g *losingGate) ReplicationID(ctx context.Context) (string, error) {
	if g.lose == nil && g.master != "" {
		return g.master, nil
	}
	return g.Redis.ReplicationID(ctx)
}

func (g *losingGate) ShowSale(ctx context.Context, a core.Activity) error {
	err := g.Effects.ShowSale(ctx, a)
	if do := g.lose; do != nil {
		g.lose = nil
		do()
	}
	return err
}

// A Redis that loses data while a round ends is not marked as filled: its buyers would read that their sale does not
// exist. A promoted replica may have the beginning of the round without its gates.
func TestARedisThatLosesDataMeanwhileIsNotMarked(t *testing.T) {
	t.Parallel()
	for name, promoted := range map[string]string{"emptied": "", "replica promoted": "another master"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.sale(1, 5)
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
			require.NoError(w.t, w.rdb.Del(w.ctx, "fs:ready").Err())
			g := &losingGate{master: promoted}
			g.lose = func() {
				filling, err := w.gate.BeginFilling(w.ctx)
				require.NoError(w.t, err)
				require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
				if promoted != "" {
					require.NoError(w.t, w.rdb.Set(w.ctx, "fs:filling", filling, 0).Err())
				}
			}
			w.parts = w.parts.with(func(p *ports) { g.Effects, g.Redis, p.gate, p.redis = p.gate, p.redis, g, g })
			w.restart()
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
			require.Nil(w.t, g.lose)
			ready, err := w.gate.Ready(w.ctx)
			require.NoError(w.t, err)
			require.False(w.t, ready)
			require.NoError(w.t, w.gates.EnsureGates(w.ctx))
			ready, err = w.gate.Ready(w.ctx)
			require.NoError(w.t, err)
			require.True(w.t, ready)
			require.Equal(w.t, stockgate.Accepted, w.sells(a))
		})
	}
}
