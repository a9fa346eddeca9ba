// Package gates builds the gates from the tables, and writes the ledger's state into them: the effects of reservations
// and adjustments, and whole gates that are absent. It imports the standard library, the contract, core and ledger
// only.
package gates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Effects builds gates, and writes the effects of the ledger into them. Every call may be repeated.
type Effects interface {
	// BeginBuild begins to build an absent gate. It fails with ErrGateLive if there is one.
	BeginBuild(ctx context.Context, activityID string) (Build, error)
	Configure(ctx context.Context, activityID string, c core.GateConfig) error
	Settle(ctx context.Context, activityID string, e []ledger.Entry) error  // of purchases that hold units
	Release(ctx context.Context, activityID string, e []ledger.Entry) error // of purchases that had an order
	Drop(ctx context.Context, activityID string, e []ledger.Entry) error    // of purchases that never had one
	// Adjust adds to the units left. Unless forced it fails with ErrGateInsufficient if too few are left, and with
	// ErrGateDecided if it removes units and is decided in the gate, because it was undone there or is in its build.
	Adjust(ctx context.Context, activityID string, a core.Adjustment, force bool) error
	UndoAdjust(ctx context.Context, activityID string, a core.Adjustment) error
	// Known returns which of these order_sns have an entry.
	Known(ctx context.Context, activityID string, orderSNs []string) (map[string]bool, error)
	Now(ctx context.Context) (time.Time, error)          // Redis's clock, which stamps reservations
	ShowSale(ctx context.Context, a core.Activity) error // writes the sale document, if it differs
}

// Activities reads activities, for internal work.
type Activities interface {
	Now(ctx context.Context) (time.Time, error)                                 // the database's clock
	AnyActivity(ctx context.Context, id string) (*core.Activity, error)         // nil when there is none
	GateActivities(ctx context.Context, now time.Time) ([]core.Activity, error) // those whose gate is due
}

// Recorder records the work on gates in logs, metrics and traces.
type Recorder interface {
	Span(ctx context.Context, name string, database bool) (context.Context, func(error))
	Rebuilt(ctx context.Context, activityID string, b BuildReport)
	Resettled(ctx context.Context, activityID string, rows int)
	Info(ctx context.Context, what string, attrs ...any)
	Warn(ctx context.Context, what string, err error)
}

// Deps are the ports and settings of a Syncer.
type Deps struct {
	Activities    Activities
	Rows          Rows
	Confirmations Confirmations
	Adjustments   Adjustments
	Epochs        Epochs
	Gate          Effects
	Guard         core.Guard
	Recorder      Recorder
	Incidents     *core.Incidents
	// CheckClocks returns an error while this process must not decide by time; nil: it always may.
	CheckClocks func(ctx context.Context) error
	Window      time.Duration // bounds the replication lag of a replica that becomes the master
	Pause       time.Duration // first pause between attempts
	Locks       Locks         // nil: builds of several processes are not serialized
	Limits      BuildConfig   // zero for DefaultBuildConfig
}

// Syncer writes the ledger's state into the gates. Every write may be repeated. It is safe for concurrent use.
type Syncer struct {
	Deps
	builds *builds

	mu        sync.Mutex
	resettled map[string]time.Time // when SettleBeforeReturning last began to settle a gate, by Redis's clock
}

// New makes a syncer.
func New(d Deps) *Syncer {
	if d.Limits == (BuildConfig{}) {
		d.Limits = DefaultBuildConfig()
	}
	if d.CheckClocks == nil {
		d.CheckClocks = func(context.Context) error { return nil }
	}
	return &Syncer{Deps: d, builds: newBuilds(), resettled: map[string]time.Time{}}
}

// Run waits for the end of ctx, and then ends the builds of gates that are in progress.
func (g *Syncer) Run(ctx context.Context) error {
	<-ctx.Done()
	g.builds.stop()
	return nil
}

// Sync repeats the effect of every reservation's present state on its gate. The gates of redisless activities
// get the effects later.
func (g *Syncer) Sync(ctx context.Context, rows []ledger.Row) error {
	rows, err := g.Guard.MaySettle(ctx, rows)
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
	return core.InSpan(ctx, g.Recorder, "gate settle", false, func(ctx context.Context) error {
		var errs []error
		for activityID, e := range byGate {
			errs = append(errs, core.Retry(ctx, g.Pause, func() error {
				return g.fillIfAbsent(ctx, activityID, func() error { return g.apply(ctx, activityID, e) })
			}))
		}
		return errors.Join(errs...)
	})
}

// readable returns the rows whose purchases the gate can take. The others, as after a manual change, raise an incident.
// They are set aside, as the gate refuses a whole call for one of them.
func (g *Syncer) readable(ctx context.Context, rows []ledger.Row) []ledger.Row {
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
	g.Incidents.RaiseUnreadable(ctx, broken)
	return sound
}

// noteLate lowers the confirmations of gates that get an effect long after its row changed, as from a message that was
// redelivered. The present master may be lost before it has replicated the effect.
func (g *Syncer) noteLate(ctx context.Context, rows []ledger.Row) error {
	now, err := g.Activities.Now(ctx)
	if err != nil {
		return err
	}
	late := map[string]time.Time{} // by activity, the oldest change
	for _, r := range rows {
		if r.ChangedAt.IsZero() || !r.ChangedAt.Before(now.Add(-g.Window/2)) { // zero: the ledger has no row
			continue
		}
		if oldest, ok := late[r.ActivityID]; !ok || r.ChangedAt.Before(oldest) {
			late[r.ActivityID] = r.ChangedAt
		}
	}
	for _, id := range slices.Sorted(maps.Keys(late)) {
		if err := g.Confirmations.LowerConfirmation(ctx, id, late[id], now); err != nil {
			return err
		}
	}
	return nil
}

// apply writes effects into one gate. The gate gets units back only after it has all reservations that hold some.
func (g *Syncer) apply(ctx context.Context, activityID string, e *effects) error {
	err := inCalls(ctx, activityID, e.settle, g.Gate.Settle)
	if err == nil {
		err = inCalls(ctx, activityID, e.release, g.Gate.Release)
	}
	if err == nil && len(e.refused) > 0 {
		err = g.SettleBeforeReturning(ctx, activityID, e.refused)
	}
	if err == nil {
		err = inCalls(ctx, activityID, e.drop, g.Gate.Drop)
	}
	return err
}

// inCalls makes calls that bound the entries of each.
func inCalls(
	ctx context.Context, activityID string, list []ledger.Entry, call func(context.Context, string, []ledger.Entry) error,
) error {
	for c := range slices.Chunk(list, gateChunk) {
		if err := call(ctx, activityID, c); err != nil {
			return err
		}
	}
	return nil
}

// fillIfAbsent runs work that needs the gate. If the gate is absent although it is due, Redis lost it: fillIfAbsent
// builds it from the tables and runs the work again. If it is not due, nothing has to be done: an activity that ended
// more than a day ago and holds nothing has no gate any more.
func (g *Syncer) fillIfAbsent(ctx context.Context, activityID string, work func() error) error {
	cause := work()
	if !errors.Is(cause, core.ErrNoGate) {
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
func (g *Syncer) Due(ctx context.Context, activityID string) (bool, error) {
	a, err := g.Activities.AnyActivity(ctx, activityID)
	if err != nil || a == nil {
		return false, err
	}
	return g.IsDue(ctx, a)
}

// IsDue reports whether the gate of an activity has to exist now. While this process must not decide by time, it
// returns an ErrGateUnavailable: the caller repeats its call, and another process decides.
func (g *Syncer) IsDue(ctx context.Context, a *core.Activity) (bool, error) {
	if err := g.CheckClocks(ctx); err != nil {
		return false, fmt.Errorf("%w: %w", core.ErrGateUnavailable, err)
	}
	now, err := g.Activities.Now(ctx)
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
func (g *Syncer) SettleBeforeReturning(ctx context.Context, activityID string, refused []ledger.Row) error {
	if g.CheckClocks(ctx) != nil {
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
	began, err := g.Gate.Now(ctx)
	if err != nil {
		return err
	}
	// Redis's clock goes back when a replica whose clock is behind becomes the master: the last time is void.
	before = before && !last.After(began.Add(clockSkew))
	if before && last.After(latest.Add(clockSkew)) {
		return nil
	}
	var since time.Time
	if !before || !last.After(began.Add(-g.Window)) {
		confirmed, err := g.Confirmations.GateConfirmations(ctx, []string{activityID})
		if err != nil {
			return err
		}
		now, err := g.Activities.Now(ctx)
		if err != nil {
			return err
		}
		since = confirmed[activityID].since(now, g.Window)
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
func (g *Syncer) forgetOld(ctx context.Context) error {
	now, err := g.Gate.Now(ctx)
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

// Resync repeats the effect of every row that changed since then, whatever its state, for a gate that may have lost
// it. Rows that ended more than GateKept ago only end entries that the gate has: it keeps no others so long, and those
// of a large activity would fill Redis.
func (g *Syncer) Resync(ctx context.Context, activityID string, since time.Time) error {
	if err := g.resettle(ctx, activityID, since); err != nil {
		return err
	}
	now, err := g.Activities.Now(ctx)
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
func (g *Syncer) withoutForgotten(
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
	known, err := g.Gate.Known(ctx, activityID, old)
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
func (g *Syncer) resettle(ctx context.Context, activityID string, since time.Time) error {
	n, err := g.settleSince(ctx, activityID, since)
	if err != nil {
		return err
	}
	decided, err := g.Adjustments.DecidedAdjustments(ctx, activityID)
	if err != nil {
		return err
	}
	for _, a := range decided {
		if err := g.SendAdjustment(ctx, a); err != nil && !errors.Is(err, core.ErrGateBroken) {
			return err
		}
	}
	g.Recorder.Resettled(ctx, activityID, n)
	return nil
}

// settleSince settles every reserved or sold row that changed since then (zero: all), and returns their number.
func (g *Syncer) settleSince(ctx context.Context, activityID string, since time.Time) (n int, err error) {
	holding := []ledger.State{ledger.StateReserved, ledger.StateSold}
	err = g.eachPage(ctx, activityID, holding, since, func(rows []ledger.Row) error {
		st := make([]ledger.Entry, len(rows))
		for i, r := range rows {
			st[i] = r.Entry()
		}
		n += len(st)
		return inCalls(ctx, activityID, st, g.Gate.Settle)
	})
	return n, err
}

// SettleAll settles every reserved or sold row.
func (g *Syncer) SettleAll(ctx context.Context, activityID string) error {
	_, err := g.settleSince(ctx, activityID, time.Time{})
	return err
}

// eachPage calls fn with the gate's rows in these states that changed since then (zero: all), page by page. Rows that
// cannot be read raise an incident and do not hold up the others.
func (g *Syncer) eachPage(
	ctx context.Context, activityID string, states []ledger.State, since time.Time, fn func([]ledger.Row) error,
) error {
	for after := ""; ; {
		rows, broken, next, err := g.Rows.ChangedReservations(ctx, activityID, states, since, after, 512)
		if err != nil {
			return err
		}
		g.Incidents.RaiseUnreadable(ctx, broken)
		rows = g.readable(ctx, rows)
		if err := fn(rows); err != nil || next == "" {
			return err
		}
		after = next
	}
}

// configure writes the activity's state, window and limit into its gate. A gate with a newer version has a later
// decision already and stays as it is.
func (g *Syncer) configure(ctx context.Context, a *core.Activity) error {
	err := g.Gate.Configure(ctx, a.ID, a.GateConfig())
	if errors.Is(err, core.ErrGateVersion) {
		return nil
	}
	return err
}

// SyncActivity writes the activity into its gate and its sale document. It builds an absent gate that is due. The gate
// of a redisless activity gets it later.
func (g *Syncer) SyncActivity(ctx context.Context, a *core.Activity) error {
	if a.Redisless() {
		return nil
	}
	err := g.configure(ctx, a)
	if errors.Is(err, core.ErrNoGate) {
		due, err := g.IsDue(ctx, a)
		if err != nil || !due {
			return err
		}
		return g.Fill(ctx, a.ID)
	}
	if err != nil {
		return err
	}
	return g.Gate.ShowSale(ctx, *a)
}

// gateChunk bounds one script call.
const gateChunk = 128

// effects are the calls that write the present states of reservations into one gate. Each may be repeated, in any
// order with the effects of other states of the row: the gate's states only rise, and a paid entry ends only by a
// release with ReasonRefunded.
type effects struct {
	settle  []ledger.Entry
	release []ledger.Entry
	drop    []ledger.Entry
	refused []ledger.Row
}

func (e *effects) add(r ledger.Row) {
	if len(r.Lines) == 0 { // rejected without valid lines: no gate has it
		return
	}
	if r.Refused() {
		e.refused = append(e.refused, r)
	}
	switch to := r.Entry(); to.Stage {
	case ledger.StageClosed:
		e.release = append(e.release, to)
	case ledger.StageFailed:
		e.drop = append(e.drop, to)
	default:
		e.settle = append(e.settle, to)
	}
}
