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
	rows, err := s.Store.RowsToRepublish(ctx, now, sweepBatch)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	sns := make([]string, len(rows))
	for i, r := range rows {
		sns[i] = r.OrderSN
	}
	open, err := s.Store.OpenLetters(ctx, sns)
	if err != nil {
		return false, err
	}
	var again []Row
	abandoned := map[string][]string{}
	for i := range rows {
		r := &rows[i]
		over := !r.LandedAt.Add(s.Timing.AbandonAfter).After(now)
		switch {
		case open[r.OrderSN]:
		case over:
			abandoned[r.ActivityID] = append(abandoned[r.ActivityID], r.OrderSN)
		default:
			again = append(again, *r)
		}
		pause := doubled(s.Timing.RepublishAfter, s.Timing.RepublishCap, r.RepublishAttempt+1)
		next := now.Add(pause)
		if end := r.LandedAt.Add(s.Timing.AbandonAfter); end.After(now) && end.Before(next) {
			next = end
		}
		r.RepublishAt, r.RepublishAttempt = &next, r.RepublishAttempt+1
	}
	// Schedule first only what succeeded: a failed publish leaves the row due.
	if err := s.publishDeductions(ctx, again); err != nil {
		return false, err
	}
	// To give up is a closing like any other, and comes as a message, which comes again until order, ledger and gate have
	// all heard of it: once the row is released no sweep finds it any more.
	given := make([]contract.OrderClose, 0, len(abandoned))
	for _, activityID := range slices.Sorted(maps.Keys(abandoned)) {
		s.Watch.Info(ctx, "giving up reservations without an order", "activity_id", activityID, "rows", len(abandoned[activityID]))
		given = append(given, contract.OrderClose{OrderSNs: abandoned[activityID], ActivityID: activityID, DueAt: now})
	}
	if len(given) > 0 {
		if err := s.retry(ctx, func() error { return s.Pub.Closings(ctx, given) }); err != nil {
			return false, err
		}
	}
	if err := s.Store.ScheduleRepublish(ctx, rows); err != nil {
		return false, err
	}
	return len(rows) == sweepBatch, nil
}

type journalMark struct {
	times int
	next  time.Time
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

func (s *Service) sweepGate(ctx context.Context, ref GateRef, redisNow time.Time) error {
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
	rows, err := s.Store.Rows(ctx, sns)
	if err != nil {
		return err
	}
	open, err := s.Store.OpenLetters(ctx, sns)
	if err != nil {
		return err
	}
	var missed []Row
	var again []string
	for _, e := range entries {
		if r, ok := rows[e.OrderSN]; ok {
			if r.UserID == e.UserID {
				missed = append(missed, r)
			}
			continue
		}
		if !open[e.OrderSN] && s.journalDue(e.OrderSN, redisNow) {
			again = append(again, e.OrderSN)
		}
	}
	if err := s.tellGate(ctx, missed); err != nil {
		return err
	}
	return chunks(again, gateChunk, func(c []string) error {
		n, err := s.Gate.Rejournal(ctx, ref, c)
		if err != nil {
			return err
		}
		if n > 0 {
			s.Watch.Info(ctx, "queued reservations were journaled again", "activity_id", ref.ActivityID, "entries", n)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, sn := range c {
			m := s.journaled[sn]
			m.times++
			m.next = redisNow.Add(doubled(s.Timing.RejournalAfter, s.Timing.RejournalCap, m.times))
			s.journaled[sn] = m
		}
		return nil
	})
}

// journalDue keeps the growing pauses of one order_sn. They begin anew with the process, which costs a message at most.
func (s *Service) journalDue(sn string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.journaled[sn]
	return !ok || !m.next.After(now)
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
