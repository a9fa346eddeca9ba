package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
)

// gateChunk bounds one script call.
const gateChunk = 128

// effects are what the gate must hear of rows as they stand. Each is safe to repeat, in any order with the effects of
// other states of the row: the gate's states only rise, and a paid entry ends only by a release with ReasonRefunded.
type effects struct {
	settle  []Settlement
	release []Ending
	drop    []Ending
	refused []Reservation // rejected for stock or allowance: the gate believed in pieces that were not there
}

func (e *effects) add(r Reservation) {
	if len(r.Lines) == 0 { // rejected unread: no gate knows it
		return
	}
	switch r.State {
	case StateReserved, StateSold:
		e.settle = append(e.settle, settlement(r))
	case StateReleased:
		end := Ending{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Reason: r.Reason}
		if r.OrderCreatedAt == nil { // never had an order: failed, not closed
			e.drop = append(e.drop, end)
		} else {
			e.release = append(e.release, end)
		}
	case StateRejected:
		e.drop = append(e.drop, Ending{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Reason: r.Reason})
		if r.Reason == ReasonSoldOut || r.Reason == ReasonLimitReached {
			e.refused = append(e.refused, r)
		}
	}
}

func settlement(r Reservation) Settlement {
	st := Settlement{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Step: StepLanded}
	switch {
	case r.State == StateSold:
		st.Step = StepPaid
	case r.OrderCreatedAt != nil:
		st.Step = StepCreated
	}
	if r.ExpiresAt != nil {
		st.ExpiresAt = *r.ExpiresAt
	}
	return st
}

// syncGate repeats the effect of every row's present state on its gate.
func (s *Service) syncGate(ctx context.Context, rows []Reservation) error {
	if len(rows) == 0 {
		return nil
	}
	byGate := map[contract.GateRef]*effects{}
	for _, r := range rows {
		ref := contract.GateRef{ActivityID: r.ActivityID, Bucket: r.Bucket}
		if byGate[ref] == nil {
			byGate[ref] = &effects{}
		}
		byGate[ref].add(r)
	}
	return s.span(ctx, "gate settle", false, func(ctx context.Context) error {
		var errs []error
		for ref, e := range byGate {
			errs = append(errs, s.retry(ctx, func() error {
				return s.orFill(ctx, ref, func() error { return s.applyEffects(ctx, ref, e) })
			}))
		}
		return errors.Join(errs...)
	})
}

func (s *Service) applyEffects(ctx context.Context, ref contract.GateRef, e *effects) error {
	err := chunks(e.settle, gateChunk, func(c []Settlement) error { return s.Gate.Settle(ctx, ref, c) })
	if err == nil {
		err = chunks(e.release, gateChunk, func(c []Ending) error { return s.Gate.Release(ctx, ref, c) })
	}
	if err == nil && len(e.refused) > 0 {
		err = s.settleBeforeRefusing(ctx, ref, e.refused)
	}
	if err == nil {
		err = chunks(e.drop, gateChunk, func(c []Ending) error { return s.Gate.Drop(ctx, ref, c) })
	}
	return err
}

// orFill does what needs the gate. While the activity's gate is due an absent one was lost: it is rebuilt here, which also
// writes what the ledger says, and the work is done after all. An activity that has been over for a day and holds nothing
// has no gate any more; then the ledger alone is the end of the story and there is nobody left to tell. The same goes for
// a bucket that no gate was ever made for.
func (s *Service) orFill(ctx context.Context, ref contract.GateRef, do func() error) error {
	cause := do()
	if !errors.Is(cause, ErrNoGate) {
		return cause
	}
	due, err := s.gateDue(ctx, ref)
	if err != nil || !due {
		return err
	}
	if err := s.FillGate(ctx, ref.ActivityID); err != nil {
		return fmt.Errorf("%w; filling it: %w", cause, err)
	}
	return do()
}

func (s *Service) gateDue(ctx context.Context, ref contract.GateRef) (bool, error) {
	if ref.Bucket != 0 {
		return false, nil
	}
	a, err := s.Store.Activity(ctx, ref.ActivityID)
	if err != nil {
		return false, err
	}
	return a != nil && a.GateDue(s.now()), nil
}

// resettleMark remembers the last settling again of a whole gate.
type resettleMark struct{ began time.Time }

// clockSkew is how far Redis's clock, which stamps reservations, and ours may be apart.
const clockSkew = 2 * time.Second

// settleBeforeRefusing makes the gate know all that the ledger holds before refused pieces go back to it. The gate gave
// them away because it had lost somebody's reservation; giving them back first would only sell them again.
// A purchase that the gate accepted before the last such settling began needs no other one. One that it accepted
// afterwards shows that the recent rows were not enough: then all rows are settled.
func (s *Service) settleBeforeRefusing(ctx context.Context, ref contract.GateRef, refused []Reservation) error {
	latest := refused[0].ReservedAt
	for _, r := range refused {
		if r.ReservedAt.After(latest) {
			latest = r.ReservedAt
		}
	}
	s.mu.Lock()
	last, before := s.resettled[ref]
	s.mu.Unlock()
	began := s.now()
	since := began.Add(-s.Timing.ResettleWindow)
	if before && last.began.After(latest.Add(clockSkew)) {
		return nil
	}
	if before && last.began.After(since) {
		since = time.Time{}
	}
	if err := s.resettle(ctx, ref, since); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resettled[ref] = resettleMark{began: began}
	return nil
}

// resync repeats the effect of every row that changed since then, whatever its state, for a gate that may have lost it.
func (s *Service) resync(ctx context.Context, ref contract.GateRef, since time.Time) error {
	if err := s.resettle(ctx, ref, since); err != nil {
		return err
	}
	return s.eachPage(ctx, ref, []ReservationState{StateReleased, StateRejected}, since, func(rows []Reservation) error {
		var e effects
		for _, r := range rows {
			e.add(r)
		}
		e.refused = nil // what they stood behind has just been settled
		return s.applyEffects(ctx, ref, &e)
	})
}

// eachPage calls fn with the gate's rows in these states that changed since then (zero: all), page by page. Rows that cannot be
// read wait for a person, and the others not for them.
func (s *Service) eachPage(ctx context.Context, ref contract.GateRef, states []ReservationState, since time.Time, fn func([]Reservation) error) error {
	for after := ""; ; {
		rows, broken, next, err := s.Store.ChangedReservations(ctx, ref.ActivityID, states, since, after, 512)
		if err != nil {
			return err
		}
		s.alarmRows(ctx, broken)
		rows = slices.DeleteFunc(rows, func(r Reservation) bool { return r.Bucket != ref.Bucket })
		if err := fn(rows); err != nil || next == "" {
			return err
		}
		after = next
	}
}

// resettle settles every reserved or sold row that changed since then, and sends the adjustments again. The rows are read
// page by page without locks: a row that is released meanwhile is terminal in the gate, and settling changes nothing there.
func (s *Service) resettle(ctx context.Context, ref contract.GateRef, since time.Time) error {
	n := 0
	err := s.eachPage(ctx, ref, []ReservationState{StateReserved, StateSold}, since, func(rows []Reservation) error {
		st := make([]Settlement, len(rows))
		for i, r := range rows {
			st[i] = settlement(r)
		}
		n += len(st)
		return chunks(st, gateChunk, func(c []Settlement) error { return s.Gate.Settle(ctx, ref, c) })
	})
	if err != nil {
		return err
	}
	decided, err := s.Store.DecidedAdjustments(ctx, ref.ActivityID)
	if err != nil {
		return err
	}
	for _, a := range decided {
		if err := s.sendAdjustment(ctx, ref, a); err != nil {
			return err
		}
	}
	s.Recorder.Resettled(ctx, ref.ActivityID, n)
	return nil
}
