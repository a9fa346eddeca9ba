package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

// GateSync writes the ledger's state into the gates: the effects of reservations and adjustments, and whole gates
// that are absent. Every write may be repeated. It is safe for concurrent use.
type GateSync struct {
	store    Store
	gate     Gate
	recorder Recorder
	alarms   *Alarms
	clocks   func(ctx context.Context) error // as Deps.CheckClocks
	window   time.Duration                   // bounds the replication lag of a replica that becomes the master
	pause    time.Duration                   // first pause between attempts
	locks    Locks                           // nil: builds of several processes are not serialized
	limits   BuildConfig
	guard    guard
	builds   *builds

	mu        sync.Mutex
	resettled map[string]time.Time // when SettleBeforeReturning last began to settle a gate, by Redis's clock
}

func newGateSync(d Deps, alarms *Alarms, g guard) *GateSync {
	return &GateSync{
		store: d.Store, gate: d.Gate, recorder: d.Recorder, alarms: alarms, clocks: d.CheckClocks,
		window: d.Timing.ResettleWindow, pause: d.Timing.Pause, locks: d.Locks, limits: d.Build, guard: g,
		builds: newBuilds(), resettled: map[string]time.Time{},
	}
}

// Run waits for the end of ctx, and then ends the builds of gates that are in progress.
func (g *GateSync) Run(ctx context.Context) error {
	<-ctx.Done()
	g.builds.stop()
	return nil
}

// Sync repeats the effect of every reservation's present state on its gate. The gates of activities in the mode direct
// get the effects later.
func (g *GateSync) Sync(ctx context.Context, rows []ledger.Row) error {
	rows, err := g.guard.MaySettle(ctx, rows)
	if err != nil {
		return err
	}
	rows = g.readable(ctx, rows)
	if len(rows) == 0 {
		return nil
	}
	if err := g.noteLate(ctx, rows); err != nil {
		return err
	}
	byGate := map[string]*effects{}
	for _, r := range rows {
		if byGate[r.ActivityID] == nil {
			byGate[r.ActivityID] = &effects{}
		}
		byGate[r.ActivityID].add(r)
	}
	return inSpan(ctx, g.recorder, "gate settle", false, func(ctx context.Context) error {
		var errs []error
		for activityID, e := range byGate {
			errs = append(errs, retry(ctx, g.pause, func() error {
				return g.fillIfAbsent(ctx, activityID, func() error { return g.apply(ctx, activityID, e) })
			}))
		}
		return errors.Join(errs...)
	})
}

// readable returns the rows whose purchases the gate can take. The others, as after a manual change, raise an alarm.
// They are set aside, as the gate refuses a whole call for one of them.
func (g *GateSync) readable(ctx context.Context, rows []ledger.Row) []ledger.Row {
	var sound, broken []ledger.Row
	if !slices.ContainsFunc(rows, ledger.Row.Invalid) {
		return rows
	}
	for _, r := range rows {
		if r.Invalid() {
			broken = append(broken, r)
		} else {
			sound = append(sound, r)
		}
	}
	g.alarms.RaiseUnreadable(ctx, broken)
	return sound
}

// noteLate lowers the confirmations of gates that get an effect long after its row changed, as from a message that was
// redelivered. The present master may be lost before it has replicated the effect.
func (g *GateSync) noteLate(ctx context.Context, rows []ledger.Row) error {
	now, err := g.store.Now(ctx)
	if err != nil {
		return err
	}
	late := map[string]time.Time{} // by activity, the oldest change
	for _, r := range rows {
		if r.ChangedAt.IsZero() || !r.ChangedAt.Before(now.Add(-g.window/2)) { // zero: the ledger has no row
			continue
		}
		if oldest, ok := late[r.ActivityID]; !ok || r.ChangedAt.Before(oldest) {
			late[r.ActivityID] = r.ChangedAt
		}
	}
	for _, id := range sortedKeys(late) {
		if err := g.store.LowerConfirmation(ctx, id, late[id], now); err != nil {
			return err
		}
	}
	return nil
}

// apply writes effects into one gate. The gate gets units back only after it has all reservations that hold some.
func (g *GateSync) apply(ctx context.Context, activityID string, e *effects) error {
	err := chunks(e.settle, gateChunk, func(c []ledger.Entry) error { return g.gate.Settle(ctx, activityID, c) })
	if err == nil {
		err = chunks(e.release, gateChunk, func(c []ledger.Entry) error { return g.gate.Release(ctx, activityID, c) })
	}
	if err == nil && len(e.refused) > 0 {
		err = g.SettleBeforeReturning(ctx, activityID, e.refused)
	}
	if err == nil {
		err = chunks(e.drop, gateChunk, func(c []ledger.Entry) error { return g.gate.Drop(ctx, activityID, c) })
	}
	return err
}

// fillIfAbsent runs work that needs the gate. If the gate is absent although it is due, Redis lost it: fillIfAbsent
// builds it from the tables and runs the work again. If it is not due, nothing has to be done: an activity that ended
// more than a day ago and holds nothing has no gate any more.
func (g *GateSync) fillIfAbsent(ctx context.Context, activityID string, work func() error) error {
	cause := work()
	if !errors.Is(cause, ErrNoGate) {
		return cause
	}
	due, err := g.Due(ctx, activityID)
	if err != nil || !due {
		return err
	}
	if err := g.Fill(ctx, activityID); err != nil {
		return fmt.Errorf("%w; filling it: %w", cause, err)
	}
	return work()
}

// Due reports whether the gate has to exist now.
func (g *GateSync) Due(ctx context.Context, activityID string) (bool, error) {
	a, err := g.store.AnyActivity(ctx, activityID)
	if err != nil || a == nil {
		return false, err
	}
	return g.due(ctx, a)
}

// due reports whether the gate of an activity has to exist now. While this process must not decide by time, it returns
// an ErrGateUnavailable: the caller repeats its call, and another process decides.
func (g *GateSync) due(ctx context.Context, a *Activity) (bool, error) {
	if err := g.clocks(ctx); err != nil {
		return false, fmt.Errorf("%w: %w", ErrGateUnavailable, err)
	}
	now, err := g.store.Now(ctx)
	return err == nil && a.GateDue(now), err
}

// clockSkew bounds the difference between the clocks of Redis servers: the nodes of a Cluster, and a master and the
// replica that replaces it.
const clockSkew = 2 * time.Second

// SettleBeforeReturning writes all that the ledger holds to the gate before refused units return to it. The gate sold
// these units because it had lost another reservation. If they returned first, it would only sell them again.
//
// If the refused purchases are older than the last resettling, it already covered them. If they are newer and the last
// resettling began less than the window ago, the window was too short: all rows are settled. Otherwise the rows that
// changed since the gate was last confirmed, less the window, are settled.
//
// Redis stamps reservations, so their times are compared with Redis's clock. The times of changes and confirmations are
// the database's. While this process must not decide by time, all rows are settled: that needs no clock.
func (g *GateSync) SettleBeforeReturning(ctx context.Context, activityID string, refused []ledger.Row) error {
	if g.clocks(ctx) != nil {
		return g.resettle(ctx, activityID, time.Time{})
	}
	latest := refused[0].ReservedAt
	for _, r := range refused {
		if r.ReservedAt.After(latest) {
			latest = r.ReservedAt
		}
	}
	g.mu.Lock()
	last, before := g.resettled[activityID]
	g.mu.Unlock()
	began, err := g.gate.Now(ctx)
	if err != nil {
		return err
	}
	// Redis's clock goes back when a replica whose clock is behind becomes the master: the last time is void.
	before = before && !last.After(began.Add(clockSkew))
	if before && last.After(latest.Add(clockSkew)) {
		return nil
	}
	var since time.Time
	if !before || !last.After(began.Add(-g.window)) {
		confirmed, err := g.store.GateConfirmations(ctx, []string{activityID})
		if err != nil {
			return err
		}
		now, err := g.store.Now(ctx)
		if err != nil {
			return err
		}
		since = confirmed[activityID].since(now, g.window)
	}
	if err := g.resettle(ctx, activityID, since); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resettled[activityID] = began
	return nil
}

// forgetOld deletes the times of settlings that are older than GateKept.
func (g *GateSync) forgetOld(ctx context.Context) error {
	now, err := g.gate.Now(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for activityID, began := range g.resettled {
		if began.Add(ledger.GateKept).Before(now) {
			delete(g.resettled, activityID)
		}
	}
	return nil
}

// resync repeats the effect of every row that changed since then, whatever its state, for a gate that may have lost
// it. Rows that ended more than GateKept ago only end entries that the gate has: it keeps no others so long, and those
// of a large activity would fill Redis.
func (g *GateSync) resync(ctx context.Context, activityID string, since time.Time) error {
	if err := g.resettle(ctx, activityID, since); err != nil {
		return err
	}
	now, err := g.store.Now(ctx)
	if err != nil {
		return err
	}
	ended := []ledger.State{ledger.StateReleased, ledger.StateRejected}
	return g.eachPage(ctx, activityID, ended, since, func(rows []ledger.Row) error {
		rows, err := g.withoutForgotten(ctx, activityID, rows, now.Add(-ledger.GateKept))
		if err != nil {
			return err
		}
		var e effects
		for _, r := range rows {
			e.add(r)
		}
		e.refused = nil // the rows that had taken their units have just been settled
		return g.apply(ctx, activityID, &e)
	})
}

// withoutForgotten returns the rows that ended since then or have an entry in the gate.
func (g *GateSync) withoutForgotten(
	ctx context.Context, activityID string, rows []ledger.Row, since time.Time,
) ([]ledger.Row, error) {
	var old []string
	for _, r := range rows {
		if r.ChangedAt.Before(since) {
			old = append(old, r.OrderSN)
		}
	}
	if len(old) == 0 {
		return rows, nil
	}
	known, err := g.gate.Known(ctx, activityID, old)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r ledger.Row) bool {
		return r.ChangedAt.Before(since) && !known[r.OrderSN]
	}), nil
}

// resettle settles every reserved or sold row that changed since then, and sends the adjustments again. It reads the
// rows page by page without locks. A row that is released meanwhile is terminal in the gate, and settling changes
// nothing there.
func (g *GateSync) resettle(ctx context.Context, activityID string, since time.Time) error {
	n, err := g.settleSince(ctx, activityID, since)
	if err != nil {
		return err
	}
	decided, err := g.store.DecidedAdjustments(ctx, activityID)
	if err != nil {
		return err
	}
	for _, a := range decided {
		if err := g.SendAdjustment(ctx, a); err != nil && !errors.Is(err, ErrGateBroken) {
			return err
		}
	}
	g.recorder.Resettled(ctx, activityID, n)
	return nil
}

// settleSince settles every reserved or sold row that changed since then (zero: all), and returns their number.
func (g *GateSync) settleSince(ctx context.Context, activityID string, since time.Time) (n int, err error) {
	holding := []ledger.State{ledger.StateReserved, ledger.StateSold}
	err = g.eachPage(ctx, activityID, holding, since, func(rows []ledger.Row) error {
		st := make([]ledger.Entry, len(rows))
		for i, r := range rows {
			st[i] = r.Entry()
		}
		n += len(st)
		return chunks(st, gateChunk, func(c []ledger.Entry) error { return g.gate.Settle(ctx, activityID, c) })
	})
	return n, err
}

// SettleAll settles every reserved or sold row.
func (g *GateSync) SettleAll(ctx context.Context, activityID string) error {
	_, err := g.settleSince(ctx, activityID, time.Time{})
	return err
}

// eachPage calls fn with the gate's rows in these states that changed since then (zero: all), page by page. Rows that
// cannot be read raise an alarm and do not hold up the others.
func (g *GateSync) eachPage(
	ctx context.Context, activityID string, states []ledger.State, since time.Time, fn func([]ledger.Row) error,
) error {
	for after := ""; ; {
		rows, broken, next, err := g.store.ChangedReservations(ctx, activityID, states, since, after, 512)
		if err != nil {
			return err
		}
		g.alarms.RaiseUnreadable(ctx, broken)
		rows = g.readable(ctx, rows)
		if err := fn(rows); err != nil || next == "" {
			return err
		}
		after = next
	}
}

// SendAdjustment makes the gate agree with the decision of the database, whatever an earlier attempt took out of the
// gate: a taken adjustment is applied without a condition, a refused one is undone.
//
// One that the gate cannot take raises an alarm. Callers that send many continue with the others after ErrGateBroken.
func (g *GateSync) SendAdjustment(ctx context.Context, a Adjustment) error {
	err := g.sendAdjustment(ctx, a)
	if errors.Is(err, ErrGateBroken) {
		g.alarms.Raise(ctx, "adjustment "+a.ID, "a gate does not take an adjustment", "activity_id", a.ActivityID,
			"adjustment_id", a.ID, "error", err)
	}
	return err
}

func (g *GateSync) sendAdjustment(ctx context.Context, a Adjustment) error {
	if a.Decision == DecisionTaken {
		return g.gate.Adjust(ctx, a.ActivityID, a, true)
	}
	return g.gate.UndoAdjust(ctx, a.ActivityID, a)
}

// configure writes the activity's state, window and limit into its gate. A gate with a newer version has a later
// decision already and stays as it is.
func (g *GateSync) configure(ctx context.Context, a *Activity) error {
	err := g.gate.Configure(ctx, a.ID, a.GateConfig())
	if errors.Is(err, ErrGateVersion) {
		return nil
	}
	return err
}

// syncActivity writes the activity into its gate and its sale document. It builds an absent gate that is due. The gate of
// an activity in the mode direct gets it later.
func (g *GateSync) syncActivity(ctx context.Context, a *Activity) error {
	if a.direct() {
		return nil
	}
	err := g.configure(ctx, a)
	if errors.Is(err, ErrNoGate) {
		due, err := g.due(ctx, a)
		if err != nil || !due {
			return err
		}
		return g.Fill(ctx, a.ID)
	}
	if err != nil {
		return err
	}
	return g.gate.ShowSale(ctx, *a)
}

// Fill builds an absent gate from the tables, and waits for it until ctx ends. The build outlives ctx: with a million
// rows it takes longer than a caller can wait. This process runs one build of a gate at a time, and other processes wait
// for its lock. A gate that is live already keeps its entries; only its configuration and the sale document are
// refreshed.
//
// While an import into the activity is to follow, the new gate has no epoch and sells nothing: the tables may lack
// purchases that orders and messages still have.
func (g *GateSync) Fill(ctx context.Context, activityID string) error {
	return g.builds.do(ctx, activityID, func(ctx context.Context) error {
		return inSpan(ctx, g.recorder, "gate build", false, func(ctx context.Context) error {
			return g.buildAlone(ctx, activityID)
		})
	})
}

// buildAlone builds a gate under its lock. The lock only saves work: of two builds, the one that began first fails. So
// without locks the gate is built all the same.
func (g *GateSync) buildAlone(ctx context.Context, activityID string) error {
	if g.locks == nil {
		return g.build(ctx, activityID)
	}
	err := g.locks.DoWithin(ctx, g.limits.LockWait, "inventory gate build "+activityID, func(ctx context.Context) error {
		return g.build(ctx, activityID)
	})
	if errors.Is(err, ErrLocksUnavailable) && ctx.Err() == nil {
		return g.build(ctx, activityID)
	}
	return err
}

func (g *GateSync) build(ctx context.Context, activityID string) error {
	r := rebuild{GateSync: g, activityID: activityID}
	a, err := r.run(ctx)
	switch {
	case errors.Is(err, ErrGateLive):
		fresh, err := g.store.AnyActivity(ctx, activityID)
		if err != nil || fresh == nil {
			return err
		}
		if err := g.configure(ctx, fresh); err != nil {
			return err
		}
		return g.gate.ShowSale(ctx, *fresh)
	case err != nil:
		return err
	}
	g.recorder.Rebuilt(ctx, activityID, r.report)
	return g.gate.ShowSale(ctx, *a)
}

// epochFor returns the epoch that a new gate gets. An epoch that is drawn after this reading includes an import of the
// activity, so the gate controller finds the difference.
func (g *GateSync) epochFor(ctx context.Context, activityID string) (GateEpoch, error) {
	e, err := g.store.PresentEpoch(ctx) // before its imports
	if err != nil {
		return GateEpoch{}, err
	}
	pending, err := g.store.PendingImports(ctx)
	if err != nil {
		return GateEpoch{}, err
	}
	if pending.Include(activityID) {
		return GateEpoch{Importing: true}, nil
	}
	return GateEpoch{Value: e.Value}, nil
}

// showSale refreshes the sale document that buyers see. If it fails, the gate controller repeats it.
func (g *GateSync) showSale(ctx context.Context, activityID string) {
	a, err := g.store.AnyActivity(ctx, activityID)
	if err == nil && a != nil {
		err = g.gate.ShowSale(ctx, *a)
	}
	if err != nil {
		g.recorder.Warn(ctx, "sale document not refreshed yet", err)
	}
}
