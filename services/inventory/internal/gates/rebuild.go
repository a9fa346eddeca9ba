package gates

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// rebuild builds one gate from the tables. It reads the rows page by page without locks, then those that changed
// meanwhile, until few are left. Then it locks the stock rows, so that no row changes, reads those few, and lets the
// gate exist if its units are those of the stock rows. If they are not, it reads more: rows may have committed long
// after they were stamped.
//
// Whatever it missed would be a row of a transaction that committed while the gate was absent. The process of that
// transaction waits for the gate and writes the row then, or the redelivered message does.
type rebuild struct {
	*Syncer
	activityID string
	build      Build
	epoch      GateEpoch
	kept       time.Time // entries that ended before are left out
	endedUntil int64     // number of these
	adjusted   map[string]bool
	seen       map[string]rowState // rows that the last reading of changed rows has put or found unchanged
	report     BuildReport
}

// rowState distinguishes two states of a row.
type rowState struct {
	state   ledger.State
	changed int64 // Unix ms
}

func stateOf(state ledger.State, changedAt time.Time) rowState {
	return rowState{state, changedAt.UnixMilli()}
}

// run builds the gate. It returns the activity that the gate was configured with.
func (r *rebuild) run(ctx context.Context) (*core.Activity, error) {
	began := time.Now() //nolint:forbidigo // measures only how long the build takes
	r.adjusted = map[string]bool{}
	err := r.step(ctx, func(ctx context.Context) error {
		now, err := r.Activities.Now(ctx)
		r.kept = now.Add(-ledger.GateKept)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = r.step(ctx, func(ctx context.Context) (err error) {
		r.epoch, err = r.epochFor(ctx, r.activityID)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = r.step(ctx, func(ctx context.Context) (err error) {
		r.build, err = r.Gate.BeginBuild(ctx, r.activityID)
		return err
	})
	if err != nil {
		return nil, err
	}
	from, err := r.mark(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.putAll(ctx); err != nil {
		return nil, err
	}
	a, err := r.finish(ctx, from)
	r.report.Took = time.Since(began) //nolint:forbidigo // as above
	return a, err
}

// step runs work with a time-out of its own. It is repeated after errors that may be transient.
func (r *rebuild) step(ctx context.Context, work func(ctx context.Context) error) error {
	pause := r.Pause
	for attempt := 1; ; attempt++ {
		bounded, cancel := context.WithTimeout(ctx, r.Limits.StepTimeout)
		err := work(bounded)
		cancel()
		if err == nil || attempt == stepAttempts || finalForBuild(err) {
			return err
		}
		if core.Sleep(ctx, pause) != nil {
			return err
		}
		pause = min(2*pause, longestPause*r.Pause)
	}
}

// finalForBuild reports whether the repetition of a step is useless.
func finalForBuild(err error) bool {
	for _, final := range []error{
		core.ErrBuildSuperseded, core.ErrBuildDiffers, core.ErrGateLive, core.ErrGateBroken, core.ErrBrokenRow,
	} {
		if errors.Is(err, final) {
			return true
		}
	}
	var refusal *contract.Refusal
	return errors.As(err, &refusal)
}

// mark returns a time before which no transaction stamps rows from now on, apart from the overlap: the present time, or
// that of the latest change, in case this process's clock is ahead.
func (r *rebuild) mark(ctx context.Context) (mark time.Time, err error) {
	err = r.step(ctx, func(ctx context.Context) error {
		latest, err := r.Rows.LatestChange(ctx, r.activityID)
		if err != nil {
			return err
		}
		if mark, err = r.Activities.Now(ctx); latest.Before(mark) {
			mark = latest
		}
		return err
	})
	return mark, err
}

// putAll puts all rows that belong into the gate, and the decided adjustments.
func (r *rebuild) putAll(ctx context.Context) error {
	err := r.step(ctx, func(ctx context.Context) (err error) {
		r.endedUntil, err = r.Rows.CountEnded(ctx, r.activityID, r.kept)
		return err
	})
	if err != nil {
		return err
	}
	for after := ""; ; {
		var rows []ledger.Row
		var next string
		if err := r.step(ctx, func(ctx context.Context) (err error) {
			rows, next, err = r.Rows.GateRows(ctx, r.activityID, r.kept, after, r.Limits.Page)
			return err
		}); err != nil {
			return err
		}
		if err := r.put(ctx, rows); err != nil {
			return err
		}
		if next == "" {
			break
		}
		after = next
	}
	return r.step(ctx, func(ctx context.Context) error {
		decided, err := r.Adjustments.DecidedAdjustments(ctx, r.activityID)
		if err != nil {
			return err
		}
		ids := make([]string, len(decided))
		for i, a := range decided {
			ids[i] = a.ID
		}
		return r.putAdjusted(ctx, ids)
	})
}

// put writes rows into the gate.
func (r *rebuild) put(ctx context.Context, rows []ledger.Row) error {
	if len(rows) == 0 {
		return nil
	}
	r.report.Rows += int64(len(rows))
	return r.step(ctx, func(ctx context.Context) error { return r.build.Put(ctx, rows) })
}

// putAdjusted writes those of the ids that have not been written.
func (r *rebuild) putAdjusted(ctx context.Context, ids []string) error {
	var fresh []string
	for _, id := range ids {
		if !r.adjusted[id] {
			fresh = append(fresh, id)
		}
	}
	if err := r.build.PutAdjusted(ctx, fresh); err != nil {
		return err
	}
	for _, id := range fresh {
		r.adjusted[id] = true
	}
	return nil
}

// finish follows the rows that have changed since from, and lets the gate exist.
func (r *rebuild) finish(ctx context.Context, from time.Time) (*core.Activity, error) {
	overlap, differed, pause := r.Limits.Overlap, 0, r.Pause
	for attempt := 1; ; attempt++ {
		since, next, err := r.follow(ctx, from, overlap)
		if err != nil {
			return nil, err
		}
		a, err := r.commit(ctx, since)
		switch {
		case err == nil:
			return a, nil
		case attempt == lockedSteps, ctx.Err() != nil:
			return nil, err
		case errors.Is(err, core.ErrBuildDiffers):
			differed++
			overlap = r.Limits.Overlap
			if from, err = r.readMore(ctx, next, differed, err); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, errTooManyChanges):
			overlap /= 2 // so that fewer rows remain; the units are compared all the same
		case finalForBuild(err):
			return nil, err
		}
		from = next
		if core.Sleep(ctx, pause) != nil {
			return nil, err
		}
		pause = min(2*pause, longestPause*r.Pause)
	}
}

// readMore reads rows that may have been missed, after the units of the gate differed from the stock for so many times.
// It returns the time from which on changes are to be followed.
func (r *rebuild) readMore(ctx context.Context, from time.Time, differed int, cause error) (time.Time, error) {
	r.seen = nil
	switch differed {
	case 1:
		return from.Add(-r.Limits.WideOverlap), nil
	case 2:
		from, err := r.mark(ctx)
		if err != nil {
			return from, err
		}
		return from, r.putAll(ctx)
	}
	return from, fmt.Errorf("%w: %w", core.ErrGateBroken, cause)
}

// follow puts the rows that have changed since from, less the overlap, again and again until few have. It returns the
// time from which on a change may have been missed, and a time from which on the next reading has to begin.
func (r *rebuild) follow(
	ctx context.Context, from time.Time, overlap time.Duration,
) (since, next time.Time, err error) {
	for n := 1; ; n++ {
		if next, err = r.mark(ctx); err != nil {
			return since, next, err
		}
		fresh, err := r.putChanged(ctx, from.Add(-overlap))
		if err != nil {
			return since, next, err
		}
		since, from = next.Add(-overlap), next
		if fresh <= r.Limits.LockedRows/4 || n == readings {
			return since, next, nil
		}
	}
}

// putChanged puts the rows that changed since then and are not as they were at the last reading. It returns their
// number. States only rise, in this order, so a row that moves meanwhile is found in its later state too, or by the
// next reading.
func (r *rebuild) putChanged(ctx context.Context, since time.Time) (fresh int, err error) {
	seen := map[string]rowState{}
	for _, state := range []ledger.State{ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected} {
		for after := (*core.ReservationPlace)(nil); ; {
			var page []core.RowVersion
			if err := r.step(ctx, func(ctx context.Context) (err error) {
				page, err = r.Rows.RowVersions(ctx, r.activityID, state, since, after, versionPages*r.Limits.Page)
				return err
			}); err != nil {
				return fresh, err
			}
			changed := r.changed(page, seen)
			fresh += len(changed)
			if err := r.putRows(ctx, changed, seen); err != nil {
				return fresh, err
			}
			if len(page) < versionPages*r.Limits.Page {
				break
			}
			last := page[len(page)-1]
			after = &core.ReservationPlace{ChangedAt: last.ChangedAt, OrderSN: last.OrderSN}
		}
	}
	r.seen = seen
	return fresh, nil
}

// changed returns the order_sns of the rows that are not as they were at the last reading. It notes the others.
func (r *rebuild) changed(page []core.RowVersion, seen map[string]rowState) (sns []string) {
	for _, v := range page {
		if now := stateOf(v.State, v.ChangedAt); r.seen[v.OrderSN] != now {
			sns = append(sns, v.OrderSN)
		} else if len(seen) < r.Limits.LockedChecks {
			seen[v.OrderSN] = now
		}
	}
	return sns
}

// putRows reads and puts rows, and notes their versions.
func (r *rebuild) putRows(ctx context.Context, sns []string, seen map[string]rowState) error {
	for c := range slices.Chunk(sns, r.Limits.Page) {
		var rows []ledger.Row
		if err := r.step(ctx, func(ctx context.Context) error {
			found, err := r.Rows.Reservations(ctx, c)
			rows = slices.Collect(maps.Values(found))
			return err
		}); err != nil {
			return err
		}
		for _, row := range rows {
			if len(seen) < r.Limits.LockedChecks {
				seen[row.OrderSN] = stateOf(row.State, row.ChangedAt)
			}
		}
		if err := r.put(ctx, rows); err != nil {
			return err
		}
	}
	return nil
}

// commit locks the activity and its stock rows, puts the rows and adjustments that are still missing, and lets the gate
// exist. It does not repeat a call that fails: the locks must end in time.
func (r *rebuild) commit(ctx context.Context, since time.Time) (*core.Activity, error) {
	var out *core.Activity
	return out, r.Rows.Rebuild(ctx, r.activityID, func(tx RebuildTx) error {
		began := time.Now() //nolint:forbidigo // measures only how long the rows are locked
		defer func() {
			r.report.Locked = max(r.report.Locked, time.Since(began)) //nolint:forbidigo // as above
		}()
		ctx, cancel := context.WithTimeout(ctx, r.Limits.Locked)
		defer cancel()
		rows, err := r.unseen(ctx, tx, since)
		if err != nil {
			return err
		}
		r.report.Rows += int64(len(rows))
		if err := r.build.Put(ctx, rows); err != nil {
			return err
		}
		ids, err := tx.Adjusted(ctx)
		if err != nil {
			return err
		}
		if err := r.putAdjusted(ctx, ids); err != nil {
			return err
		}
		a := tx.Activity()
		out = &a
		return r.build.Commit(ctx, a, r.endedUntil, r.epoch)
	})
}

// unseen reads the rows that changed since then and are not as they were at the last reading.
func (r *rebuild) unseen(ctx context.Context, tx RebuildTx, since time.Time) ([]ledger.Row, error) {
	versions, err := tx.Changed(ctx, since, r.Limits.LockedChecks+1)
	if err != nil {
		return nil, err
	}
	var sns []string
	for _, v := range versions {
		if r.seen[v.OrderSN] != stateOf(v.State, v.ChangedAt) {
			sns = append(sns, v.OrderSN)
		}
	}
	if len(versions) > r.Limits.LockedChecks || len(sns) > r.Limits.LockedRows {
		return nil, errTooManyChanges
	}
	if len(sns) == 0 {
		return nil, nil
	}
	return tx.Reservations(ctx, sns)
}
