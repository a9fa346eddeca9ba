package core

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sort"
	"time"

	"flashsale.internal/pkg/contract"
)

// ReconcilerName is who repairs what nobody asked to be repaired, in the records.
const ReconcilerName = "reconciler"

// Reconciliation is what came of comparing gate, ledger and allowances of an activity.
type Reconciliation struct {
	LookedAt    time.Time
	Repairs     []Repair
	Differences []Difference // what is left
}

// reconciliation is one under way.
type reconciliation struct {
	activity *Activity
	ref      contract.GateRef
	who      string
	result   Reconciliation
	recorded int              // of result.Repairs, how many are on record
	left     map[string]bool  // order_sns of result.Differences, so that each is there once
	rough    map[string]int64 // by SKU, what gate and database differed by in every look so far that was not exact
}

// lockWait bounds how long a person's call waits for another reconciliation of the same activity.
const lockWait = 5 * time.Second

// alarmAgain is how long something that stays wrong is not told again.
const alarmAgain = time.Hour

// lookedAt is when an activity was last reconciled, and how long a look took, if nothing was wrong.
type lookedAt struct {
	at   time.Time
	took time.Duration
}

// restAfter is by how much the pause after a look that found nothing exceeds its length, up to restMost: looking at a very
// large activity takes a tenth of the time, at most.
const (
	restAfter = 10
	restMost  = 5 * time.Minute
)

// Reconcile compares and repairs an activity now, for a person.
func (s *Service) Reconcile(ctx context.Context, who, activityID string) (*Reconciliation, error) {
	a, err := s.Activity(ctx, activityID)
	if err != nil {
		return nil, err
	}
	var out *Reconciliation
	for began := time.Now(); ; {
		out, err = s.reconcileAlone(ctx, who, a)
		if !errors.Is(err, ErrLockHeld) {
			return out, gateUnread(err)
		}
		if time.Since(began) > lockWait {
			return nil, contract.Refuse(contract.CodeUnavailable, "the activity is being reconciled; repeat the call").Because(err).After(retryGateAfter)
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// ReconcileAll reconciles every activity that has a gate, those first that were not looked at for longest. One that
// cannot be reconciled does not hold up the others. In a rush it waits.
func (s *Service) ReconcileAll(ctx context.Context) error {
	activities, err := s.Store.GateActivities(ctx, s.now())
	if err != nil {
		return err
	}
	began := time.Now()
	s.mu.Lock()
	last := make(map[string]lookedAt, len(activities))
	for _, a := range activities {
		if l, ok := s.looked[a.ID]; ok {
			last[a.ID] = l
		}
	}
	s.looked = maps.Clone(last) // forgets those that are over
	s.mu.Unlock()
	sort.SliceStable(activities, func(i, j int) bool { return last[activities[i].ID].at.Before(last[activities[j].ID].at) })
	var errs []error
	var asked time.Time // when all gates were last asked about a rush
	due := false        // the round is held in whatever rush
	for i := range activities {
		a := &activities[i]
		if l := last[a.ID]; began.Before(l.at.Add(min(restAfter*l.took, restMost))) {
			continue
		}
		rush := false
		ask := !due && time.Since(asked) >= time.Second
		if ask {
			rush = s.rush(ctx, activities)
			asked = time.Now()
		}
		if ctx.Err() != nil {
			return errors.Join(errs...) // the next round goes on with those that this one did not come to
		}
		if ask {
			if s.givesWay(rush, s.now()) {
				return errors.Join(errs...)
			}
			due = rush
		}
		if _, err := s.reconcileAlone(ctx, ReconcilerName, a); err != nil && !errors.Is(err, ErrLockHeld) {
			errs = append(errs, fmt.Errorf("activity %s: %w", a.ID, err))
		}
	}
	return errors.Join(errs...)
}

// reconcileAlone reconciles under the activity's lock, and keeps what was repaired, also when it came to no end.
func (s *Service) reconcileAlone(ctx context.Context, who string, a *Activity) (*Reconciliation, error) {
	run := &reconciliation{activity: a, ref: contract.GateRef{ActivityID: a.ID}, who: who}
	err := s.Locks.Do(ctx, "inventory reconcile "+a.ID, func(ctx context.Context) error {
		return s.span(ctx, "reconcile", false, func(ctx context.Context) error {
			err := s.reconcile(ctx, run)
			return errors.Join(err, run.record(ctx, s, err == nil && who != ReconcilerName))
		})
	})
	if err != nil {
		return nil, err
	}
	return &run.result, nil
}

// record keeps who repaired what and when. asked keeps a call that found nothing, too.
func (run *reconciliation) record(ctx context.Context, s *Service, asked bool) error {
	fresh := run.result.Repairs[run.recorded:]
	run.recorded = len(run.result.Repairs)
	if len(fresh) == 0 && !asked {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // what was done is kept, even if the lock is gone
	defer cancel()
	type line struct {
		OrderSN string           `json:"order_sn,omitempty"`
		UserID  string           `json:"user_id,omitempty"`
		Kind    RepairKind       `json:"kind"`
		Deltas  map[string]int64 `json:"deltas,omitempty"`
	}
	lines := make([]line, len(fresh))
	for i, r := range fresh {
		lines[i] = line{OrderSN: r.OrderSN, UserID: r.UserID, Kind: r.Kind}
		for _, d := range r.Deltas {
			if lines[i].Deltas == nil {
				lines[i].Deltas = map[string]int64{}
			}
			lines[i].Deltas[d.SKUID] += d.Delta
		}
	}
	keep := func(part []line) error {
		return s.Store.Record(ctx, Change{
			At: s.now(), Who: run.who, Action: "activity.reconcile", Object: "activity", ObjectID: run.activity.ID,
			Detail: map[string]any{"repairs": part, "left": len(run.result.Differences)},
		})
	}
	if len(lines) == 0 {
		return keep([]line{})
	}
	return chunks(lines, recordLines, keep)
}

// recordLines bounds one record: its text is some ten kilobytes then.
const recordLines = 100

// add tells of a repair and remembers it.
func (run *reconciliation) add(ctx context.Context, s *Service, r Repair) {
	run.result.Repairs = append(run.result.Repairs, r)
	s.Recorder.Repaired(ctx, run.activity.ID, r)
}

// leave remembers what cannot be repaired, and calls somebody.
func (run *reconciliation) leave(ctx context.Context, s *Service, f finding, orderSN string) {
	if run.left[orderSN] {
		return
	}
	if run.left == nil {
		run.left = map[string]bool{}
	}
	run.left[orderSN] = true
	run.result.Differences = append(run.result.Differences, Difference{OrderSN: orderSN, Why: f.why})
	s.alarm(ctx, f.alarm+" "+orderSN, f.alarm, "activity_id", run.activity.ID, "order_sn", orderSN)
}

// alarm raises an incident about something that may stay for long, now and then.
func (s *Service) alarm(ctx context.Context, key, what string, attrs ...any) {
	now := s.now()
	s.mu.Lock()
	last, told := s.alarms[key]
	tell := !told || now.Sub(last) >= alarmAgain
	if tell {
		s.alarms[key] = now
	}
	if now.Sub(s.tidied) >= alarmAgain {
		s.tidied = now
		maps.DeleteFunc(s.alarms, func(_ string, at time.Time) bool { return now.Sub(at) >= 2*alarmAgain })
	}
	s.mu.Unlock()
	if tell {
		s.Recorder.Incident(ctx, what, attrs...)
	}
}

// wait is a pause with jitter that ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d + rand.N(d/8+1)) //nolint:gosec // no secret depends on it
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// unreadable calls somebody where rows or a gate cannot be read, as nothing can be compared then; any other error is the caller's.
func (s *Service) unreadable(ctx context.Context, run *reconciliation, err error) error {
	if !errors.Is(err, ErrGateBroken) && !errors.Is(err, ErrBrokenRow) {
		return err
	}
	run.result.Differences = append(run.result.Differences, Difference{Why: "the gate cannot be read, or not be built from the tables"})
	s.alarmBroken(ctx, run.activity.ID, err)
	return nil
}

// reconcile looks, repairs by order_sn, and looks again, until a look finds nothing or so many were made that it is
// better to come back later.
func (s *Service) reconcile(ctx context.Context, run *reconciliation) error {
	var took time.Duration // the latest look
	defer func() {
		if len(run.result.Repairs)+len(run.result.Differences) > 0 {
			took = 0
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looked[run.activity.ID] = lookedAt{time.Now(), took}
	}()
	if run.activity.State == ActivityDraft {
		run.result.LookedAt = s.now()
		return nil
	}
	if err := s.repairAllowances(ctx, run); err != nil {
		return s.unreadable(ctx, run, err)
	}
	var same sameFigures
	for n := 1; ; n++ {
		if n > 1 {
			if err := wait(ctx, s.Timing.ReconcilePause); err != nil {
				return err
			}
		}
		run.result.Differences, run.left = nil, nil
		run.result.LookedAt = s.now()
		looking := time.Now()
		l, err := s.look(ctx, run)
		took = time.Since(looking)
		built := false
		if errors.Is(err, ErrNoGate) {
			built, err = s.gateAbsent(ctx, run)
		}
		switch {
		case err != nil:
			return s.unreadable(ctx, run, err)
		case built && n < s.mostLooks():
			continue
		case l == nil:
			return nil
		}
		repairs := len(run.result.Repairs)
		if err := s.repairEntries(ctx, run, l); err != nil {
			return err
		}
		if err := s.mend(ctx, run, l); err != nil {
			return err
		}
		if err := s.makeMissing(ctx, run, l); err != nil {
			return err
		}
		quiet, still, err := s.isQuiet(ctx, run, l)
		if err != nil {
			return err
		}
		run.compareRoughly(l)
		givesWay := run.who == ReconcilerName && !l.exact && l.audit.rush()
		last := n >= s.mostLooks() || s.nearlyOver(ctx, took) || givesWay
		switch f := l.figures(); {
		case len(run.result.Repairs) > repairs:
			same = sameFigures{} // they say something else now
		case f.agree() && (l.exact || l.roughlyAgrees()):
			return nil
		case !l.exact: // whether there is anything to wait for, nobody knows
			last = last || !same.any() && n >= s.Timing.ReconcileConfirmations
		case quiet:
			looks := s.Timing.ReconcileConfirmations
			if !still {
				looks *= 2
			}
			proven := same.again(f, looks)
			if proven.agree() {
				break
			}
			done, err := s.correct(ctx, run, l, proven)
			if err != nil {
				return err
			}
			last = last || done
			same = sameFigures{}
		}
		if last {
			if !givesWay || n > 1 { // of one look beside a rush everything differs
				l.tellDifferences(run)
			}
			return nil
		}
	}
}

// compareRoughly keeps what gate and database differ by, as far as every look found the same: what is on its way differs
// from look to look.
func (run *reconciliation) compareRoughly(l *look) {
	now := map[string]int64{}
	for _, it := range l.after.Items {
		g := l.audit.SKUs[it.SKUID]
		d := it.Available - g.Left - g.Journal - g.InFlight
		if before, ok := run.rough[it.SKUID]; d != 0 && (run.rough == nil || ok && before == d) {
			now[it.SKUID] = d
		}
	}
	run.rough = now
}

// nearlyOver tells whether there is no time for another look.
func (s *Service) nearlyOver(ctx context.Context, look time.Duration) bool {
	end, bounded := ctx.Deadline()
	return bounded && time.Until(end) < 4*s.Timing.ReconcilePause+3*look
}

// mostLooks bounds one reconciliation.
func (s *Service) mostLooks() int { return 3*s.Timing.ReconcileConfirmations + 6 }

// gateAbsent builds the gate if it has to exist.
func (s *Service) gateAbsent(ctx context.Context, run *reconciliation) (again bool, err error) {
	due, err := s.gateDue(ctx, run.ref)
	if err != nil || !due {
		return false, err
	}
	if err := s.FillGate(ctx, run.activity.ID); err != nil {
		return false, err
	}
	run.add(ctx, s, Repair{Kind: RepairRebuilt})
	return true, nil
}

// mend makes buyers' records and indexes fit the entries. That they do not is seen and put right inside one script each
// time, and every script keeps them in step: no traffic looks like it, and none gets in between.
func (s *Service) mend(ctx context.Context, run *reconciliation, l *look) error {
	for _, user := range sortedKeys(l.misfits) {
		for sns := l.misfits[user]; ; sns = sns[gateChunk:] {
			changed, err := s.Gate.Mend(ctx, run.ref, user, sns[:min(len(sns), gateChunk)])
			if err != nil {
				return err
			}
			if changed {
				run.add(ctx, s, Repair{Kind: RepairBuyers})
			}
			if len(sns) <= gateChunk {
				break
			}
		}
	}
	return nil
}

// repairAllowances compares every allowance with what the ledger's rows of its user hold. Both are read again, and the
// allowance rewritten, under the locks of the activity's stock, which whoever changes one of the two holds: so it is
// never one that is just being changed.
func (s *Service) repairAllowances(ctx context.Context, run *reconciliation) error {
	id := run.activity.ID
	for after := ""; ; {
		page, next, err := s.Store.Holders(ctx, id, after, holderPage)
		if err != nil {
			return err
		}
		var off []string
		for _, h := range page {
			if h.Held != h.Allowance {
				off = append(off, h.UserID)
			}
		}
		err = chunks(off, lockedUsers, func(users []string) error {
			var wrong []string
			err := s.Store.Ledger(ctx, []string{id}, func(tx LedgerTx) error {
				wrong = nil
				allowed, err := tx.Held(id, users)
				if err != nil {
					return err
				}
				held, err := tx.HeldByReservations(id, users)
				if err != nil {
					return err
				}
				for _, u := range users {
					if allowed[u] == held[u] {
						continue
					}
					wrong = append(wrong, u)
					if err := tx.SetHeld(Buyer{id, u}, held[u]); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, u := range wrong {
				run.add(ctx, s, Repair{Kind: RepairAllowance, UserID: u})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

const (
	holderPage  = 1000
	lockedUsers = 50 // bounds what is done under the locks
)
