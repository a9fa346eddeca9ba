package core

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
)

const (
	sweepBatch   = 256  // bounds one look of a sweeper at the database
	unlandedPage = 1000 // bounds one at a gate; more than one ms ever journals
)

// SweepOrders publishes the deductions again of rows that have no order, and gives up those that have had none for
// AbandonAfter: order is asked for the tombstone, and only its answer releases anything. A row with an open dead letter is
// left alone. more says that there may be others due.
func (s *Service) SweepOrders(ctx context.Context) (more bool, err error) {
	now := s.now()
	rows, broken, err := s.Store.ReservationsToRepublish(ctx, now, sweepBatch)
	if err != nil || len(rows)+len(broken) == 0 {
		return false, err
	}
	more = len(rows)+len(broken) == sweepBatch
	sns := make([]string, len(rows))
	for i, r := range rows {
		sns[i] = r.OrderSN
	}
	open, err := s.Store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return false, err
	}
	var again []Reservation
	abandoned := map[string][]string{}
	for _, r := range rows {
		over := !r.LandedAt.Add(s.Timing.AbandonAfter).After(now)
		switch {
		case open[r.OrderSN]:
		case over:
			abandoned[r.ActivityID] = append(abandoned[r.ActivityID], r.OrderSN)
		default:
			again = append(again, r)
		}
	}
	s.alarmRows(ctx, broken)
	// Schedule first only what succeeded: a failed publish leaves the row due.
	if err := s.publishDeductions(ctx, again); err != nil {
		return false, err
	}
	// To give up is a closing like any other, and comes as a message, which comes again until order, ledger and gate have
	// all heard of it: once the row is released no sweep finds it any more.
	given := make([]contract.OrderClose, 0, len(abandoned))
	for _, activityID := range slices.Sorted(maps.Keys(abandoned)) {
		s.Recorder.Info(ctx, "giving up reservations without an order", "activity_id", activityID, "rows", len(abandoned[activityID]))
		given = append(given, contract.OrderClose{OrderSNs: abandoned[activityID], ActivityID: activityID, DueAt: now})
	}
	if len(given) > 0 {
		if err := s.retry(ctx, func() error { return s.Pub.Closings(ctx, given) }); err != nil {
			return false, err
		}
	}
	// What nobody can read or price waits as all others do, so that it hides none of them.
	rows = append(rows, broken...)
	for i := range rows {
		r := &rows[i]
		next := now.Add(doubled(s.Timing.RepublishAfter, s.Timing.RepublishCap, r.RepublishAttempt+1))
		if end := r.LandedAt.Add(s.Timing.AbandonAfter); end.After(now) && end.Before(next) {
			next = end
		}
		r.RepublishAt, r.RepublishAttempt = &next, r.RepublishAttempt+1
	}
	if err := s.Store.ScheduleRepublish(ctx, rows); err != nil {
		return false, err
	}
	return more, nil
}

// alarmRows calls somebody to rows of the ledger that cannot be read.
func (s *Service) alarmRows(ctx context.Context, broken []Reservation) {
	for _, r := range broken {
		s.alarm(ctx, "unreadable "+r.OrderSN, "a row of the ledger cannot be read", "order_sn", r.OrderSN, "activity_id", r.ActivityID)
	}
}

// repeatMark keeps the growing pauses of one order_sn. They begin anew with the process, which costs a message at most.
type repeatMark struct {
	times int
	next  time.Time
}

func (m repeatMark) again(now time.Time, first, limit time.Duration) repeatMark {
	m.times++
	m.next = now.Add(doubled(first, limit, m.times))
	return m
}

// SweepReserved asks order again about reservations that should be over and are not: neither what their orders told nor
// their closings got here, or a person rejected both unread. It sends their closing anew, whose consumer lets ledger and
// gate follow whatever order answers. A row with an open dead letter is left alone; one that never had an order is the
// business of SweepOrders.
func (s *Service) SweepReserved(ctx context.Context) error {
	now := s.now()
	holding, err := s.Store.HoldingActivities(ctx)
	if err != nil {
		return err
	}
	var errs []error
	overdue := make(map[string]*ReservationPlace, len(holding))
	for _, a := range holding {
		// One page at a time, and the next one in the next round: those that are asked about in vain hide nobody.
		s.mu.Lock()
		from := s.overdue[a.ID]
		s.mu.Unlock()
		next, err := s.askAgain(ctx, a, now, from)
		if err != nil {
			errs = append(errs, err)
			next = from
		}
		if next != nil {
			overdue[a.ID] = next
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overdue = overdue
	for sn, m := range s.asked {
		if m.next.Add(2 * s.Timing.AskCap).Before(now) {
			delete(s.asked, sn)
		}
	}
	return errors.Join(errs...)
}

func (s *Service) askAgain(ctx context.Context, a Activity, now time.Time, from *ReservationPlace) (next *ReservationPlace, err error) {
	// A reserved row that has an order changed last when inventory heard of it: its pay window began before.
	late := s.Timing.AskAfter
	since := now.Add(-late - time.Duration(a.PayWithinS)*time.Second)
	rows, broken, next, err := s.Store.OverdueReservations(ctx, a.ID, since, from, sweepBatch)
	if err != nil {
		return nil, err
	}
	s.alarmRows(ctx, broken)
	sns := make([]string, len(rows))
	for i, r := range rows {
		sns[i] = r.OrderSN
	}
	open, err := s.Store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return nil, err
	}
	var due []string
	for _, r := range rows {
		early := r.ExpiresAt != nil && r.ExpiresAt.Add(late).After(now)
		if !open[r.OrderSN] && !early && s.due(s.asked, r.OrderSN, now) {
			due = append(due, r.OrderSN)
		}
	}
	if len(due) == 0 {
		return next, nil
	}
	s.Recorder.Info(ctx, "asking again about reservations past their time", "activity_id", a.ID, "rows", len(due))
	closing := []contract.OrderClose{{OrderSNs: due, ActivityID: a.ID, DueAt: now}}
	if err := s.retry(ctx, func() error { return s.Pub.Closings(ctx, closing) }); err != nil {
		return nil, err
	}
	s.repeated(s.asked, due, now, late, s.Timing.AskCap)
	return next, nil
}

// due tells whether the pause of an order_sn is over.
func (s *Service) due(marks map[string]repeatMark, sn string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := marks[sn]
	return !ok || !m.next.After(now)
}

// repeated begins the next, longer pause of each.
func (s *Service) repeated(marks map[string]repeatMark, sns []string, now time.Time, first, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sn := range sns {
		marks[sn] = marks[sn].again(now, first, limit)
	}
}

// SweepGates has queued purchases journaled again that the ledger does not have: their journal entry was acked by
// somebody who then lost it, or Redis lost it. The ledger is asked first: what it has is told to the gate instead. An
// order_sn with an open dead letter is left alone.
func (s *Service) SweepGates(ctx context.Context) error {
	refs, err := s.Gate.Refs(ctx)
	if err != nil {
		return err
	}
	redisNow, err := s.Gate.Now(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, ref := range refs {
		errs = append(errs, s.sweepGate(ctx, ref, redisNow))
	}
	s.mu.Lock()
	for sn, m := range s.journaled {
		if m.next.Add(2 * s.Timing.RejournalCap).Before(redisNow) {
			delete(s.journaled, sn)
		}
	}
	for ref, m := range s.resettled {
		if m.began.Add(GateKept).Before(s.now()) {
			delete(s.resettled, ref)
		}
	}
	s.mu.Unlock()
	return errors.Join(errs...)
}

func (s *Service) sweepGate(ctx context.Context, ref contract.GateRef, redisNow time.Time) error {
	s.mu.Lock()
	from := s.swept[ref]
	s.mu.Unlock()
	entries, err := s.Gate.Unlanded(ctx, ref, from, redisNow.Add(-s.Timing.RejournalAfter), unlandedPage)
	if errors.Is(err, ErrNoGate) {
		return nil // the keeper's work
	}
	if err != nil {
		return err
	}
	// One page at a time, and the next one in the next round: those that wait for their pause to end, or for a person, do
	// not hide those behind them.
	s.mu.Lock()
	if len(entries) < unlandedPage {
		delete(s.swept, ref)
	} else if next := entries[len(entries)-1].JournaledAt; next.After(from) {
		s.swept[ref] = next
	} else {
		s.swept[ref] = from.Add(time.Millisecond)
	}
	s.mu.Unlock()
	if len(entries) == 0 {
		return nil
	}
	sns := make([]string, len(entries))
	for i, e := range entries {
		sns[i] = e.OrderSN
	}
	rows, err := s.Store.Reservations(ctx, sns)
	if err != nil {
		return err
	}
	open, err := s.Store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return err
	}
	var missed []Reservation
	var again []string
	for _, e := range entries {
		if r, ok := rows[e.OrderSN]; ok {
			if r.UserID == e.UserID {
				missed = append(missed, r)
			}
			continue
		}
		if !open[e.OrderSN] && s.due(s.journaled, e.OrderSN, redisNow) {
			again = append(again, e.OrderSN)
		}
	}
	if err := s.syncGate(ctx, missed); err != nil {
		return err
	}
	return chunks(again, gateChunk, func(c []string) error {
		n, err := s.Gate.Rejournal(ctx, ref, c)
		if err != nil {
			return err
		}
		if n > 0 {
			s.Recorder.Info(ctx, "queued reservations were journaled again", "activity_id", ref.ActivityID, "entries", n)
		}
		s.repeated(s.journaled, c, redisNow, s.Timing.RejournalAfter, s.Timing.RejournalCap)
		return nil
	})
}

// SweepAdjustments finishes adjustments that a killed instance left in between.
func (s *Service) SweepAdjustments(ctx context.Context) error {
	left, err := s.Store.AdjustmentsToResume(ctx, s.now().Add(-s.Timing.ResumeAfter), sweepBatch)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range left {
		_, err := s.runAdjustment(ctx, a)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
