package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Times of the change of modes. They are compared by the clock of the database.
const (
	// lostAfter is for how long a gate must not respond to this process, to all others, and to the process of seckill that
	// reports it, before the mode becomes direct. steadyAfter is for how long it must respond before the mode is gate again.
	lostAfter   = 3 * time.Second
	steadyAfter = 3 * time.Second
	// sellAfter is the time from the change to direct to the first direct purchase. Each process of seckill reads the modes
	// once a second, and hands over what it has accepted.
	sellAfter = 2 * time.Second
	// figuresSlack is by how much the last reading of a gate may precede the time from which on a process of seckill got
	// no response from it. Older figures lack purchases that were accepted since.
	figuresSlack = 5 * time.Second
	// lackOverlap is how much earlier than noted the changes begin that a gate gets before its mode is gate again. It
	// covers transactions that commit some time after they have stamped their rows.
	lackOverlap = 10 * time.Second
)

// Direct reports whether purchases are decided by the ledger alone.
func (a *Activity) Direct() bool { return a.Mode == contract.ModeDirect }

// UsesGate reports whether seckill may use the gate.
func (a *Activity) UsesGate() bool { return a.Mode == "" || a.Mode == contract.ModeGate }

// WithoutGate reports whether a reading of the gate failed with err because the sale goes on without it.
func (a *Activity) WithoutGate(err error) bool {
	return !a.UsesGate() && (errors.Is(err, ErrGateUnavailable) || errors.Is(err, ErrNoGate))
}

// Modes returns the modes of the activities with a degraded sale. lost has, by activity, for how long its gate did not
// respond to the caller, a process of seckill. If it responds to no process of inventory either, the mode becomes direct.
func (s *Service) Modes(ctx context.Context, lost map[string]time.Duration) (contract.Modes, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return contract.Modes{}, err
	}
	activities, err := s.store.DegradedActivities(ctx, now)
	if err != nil {
		return contract.Modes{}, err
	}
	modes := contract.Modes{Now: now, Activities: make([]contract.ActivityMode, 0, len(activities))}
	var others []string
	for i := range activities {
		a := &activities[i]
		if d, is := lost[a.ID]; is && !a.Direct() && a.Degraded != nil && d >= lostAfter && s.Watch.lost(a.ID) {
			changed, err := s.sellDirectly(ctx, a.ID, d)
			if err == nil {
				a.Mode, a.ModeEpoch = changed.Mode, changed.ModeEpoch
			} else { // it keeps no other sale from going on, and the caller reports it again
				s.recorder.Warn(ctx, "mode of a sale not changed yet", fmt.Errorf("activity %s: %w", a.ID, err))
			}
		}
		if !a.UsesGate() {
			others = append(others, a.ID)
		}
	}
	sales, err := s.store.DirectSales(ctx, others)
	if err != nil {
		return modes, err
	}
	for i := range activities {
		modes.Activities = append(modes.Activities, modeView(&activities[i], sales[activities[i].ID]))
	}
	return modes, nil
}

func modeView(a *Activity, figures DirectSale) contract.ActivityMode {
	m := contract.ActivityMode{ActivityID: a.ID, Mode: a.Mode, Epoch: a.ModeEpoch}
	if a.Degraded != nil {
		m.PerSecond, m.Drop = a.Degraded.PerSecond, a.Degraded.Drop
	}
	if a.UsesGate() {
		return m
	}
	state := map[ActivityState]string{ActivityPublished: "open", ActivityPaused: "paused"}[a.State]
	if state == "" {
		state = "ended"
	}
	m.Sale = &contract.DirectSale{
		Title: a.Title, Description: a.Description, ImageURL: a.ImageURL, State: state, StartsAt: a.StartsAt,
		EndsAt: a.EndsAt, PerUserLimit: a.PerUserLimit, PayWithinS: a.PayWithinS,
		Captcha: a.challenge().String(),
	}
	for _, it := range a.Items {
		m.Sale.Items = append(m.Sale.Items, contract.DirectItem{
			SKUID: it.SKUID, Name: it.Name, ImageURL: it.ImageURL, Price: it.Price, ListPrice: it.ListPrice,
			Currency: a.Currency, Total: it.Total, Left: figures.left(it),
		})
	}
	return m
}

// sellDirectly makes the mode of an activity direct, if no process of inventory has read its gate for lostAfter, and the
// last one did until the gate was lost. lost is for how long a process of seckill has got no response.
func (s *Service) sellDirectly(ctx context.Context, activityID string, lost time.Duration) (*Activity, error) {
	changed := false
	read, landed, err := s.landedSince(ctx, activityID)
	if err != nil {
		return nil, err
	}
	a, err := s.store.ChangeMode(ctx, activityID, func(a *Activity, d *DirectSale, now time.Time) (bool, error) {
		changed = false
		_, ended := a.EndedSince(now)
		if a.Direct() || a.Degraded == nil || ended || a.State == ActivityDraft || a.State == ActivityEnded {
			return false, nil
		}
		if d.SeenAt.IsZero() || !d.SeenAt.Equal(read) || d.SeenAt.After(now.Add(-lostAfter)) ||
			d.SeenAt.Before(now.Add(-lost-figuresSlack)) {
			return false, nil
		}
		if a.UsesGate() {
			a.GateLacksSince = &d.SeenAt
		}
		a.Mode, a.ModeEpoch, a.ModeChangedAt = contract.ModeDirect, a.ModeEpoch+1, &now
		d.hold(a, landed)
		changed = true
		return true, nil
	})
	if err == nil && changed {
		s.recorder.Warn(ctx, "a sale goes on without its gate", fmt.Errorf("%w: activity %s", ErrGateUnavailable, activityID))
	}
	return a, err
}

// landedSince returns when the gate was last read, and by SKU the units of purchases that were in its figures and have
// landed since the end of that reading.
func (s *Service) landedSince(ctx context.Context, activityID string) (seen time.Time, landed map[string]int64, err error) {
	all, err := s.store.DirectSales(ctx, []string{activityID})
	if err != nil {
		return seen, nil, err
	}
	figures := all[activityID]
	landed = map[string]int64{}
	states := []ledger.State{ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected}
	for after := ""; figures.NotedAt.After(figures.SeenAt); {
		rows, _, next, err := s.store.ChangedReservations(ctx, activityID, states, figures.NotedAt, after, 512)
		if err != nil {
			return seen, nil, err
		}
		for _, r := range rows {
			if r.LandedAt.After(figures.NotedAt) && r.ReservedAt.Before(figures.FiguresAt) {
				for _, l := range r.Lines {
					landed[l.SKUID] += l.Qty
				}
			}
		}
		if after = next; next == "" {
			break
		}
	}
	return figures.SeenAt, landed, nil
}

// beginReturn makes the mode of a direct activity returning: nothing is sold until finishReturn.
func (s *Service) beginReturn(ctx context.Context, activityID string) (*Activity, error) {
	return s.store.ChangeMode(ctx, activityID, func(a *Activity, _ *DirectSale, now time.Time) (bool, error) {
		if !a.Direct() {
			return false, nil
		}
		a.Mode, a.ModeChangedAt = contract.ModeReturning, &now
		return true, nil
	})
}

// finishReturn makes the mode gate, once the gate has every effect, unless the mode has become direct meanwhile.
func (s *Service) finishReturn(ctx context.Context, activityID string, epoch int64) error {
	changed := false
	_, err := s.store.ChangeMode(ctx, activityID, func(a *Activity, _ *DirectSale, now time.Time) (bool, error) {
		changed = a.Mode == contract.ModeReturning && a.ModeEpoch == epoch
		if changed {
			a.Mode, a.ModeChangedAt, a.GateLacksSince = contract.ModeGate, &now, nil
		}
		return changed, nil
	})
	if err == nil && changed {
		s.recorder.Info(ctx, "a sale uses its gate again", "activity_id", activityID)
	}
	return err
}

// ReturnToGate moves an activity back to its gate, which responds and has been ensured: it gets what changed while it was
// not used.
func (s *Service) ReturnToGate(ctx context.Context, a *Activity) error {
	var since time.Time
	if a.GateLacksSince != nil {
		since = a.GateLacksSince.Add(-lackOverlap)
	}
	if err := s.Gates.Resync(ctx, a.ID, since); err != nil {
		return err
	}
	return s.finishReturn(ctx, a.ID, a.ModeEpoch)
}

// MayReturn reports whether the gate of an activity may be written. For one in the mode direct, this process must have
// read it for a while; then its mode becomes returning.
func (s *Service) MayReturn(ctx context.Context, a *Activity) (bool, error) {
	if !a.Direct() {
		return true, nil
	}
	if !s.Watch.steady(a.ID) {
		return false, nil
	}
	changed, err := s.beginReturn(ctx, a.ID)
	if err != nil {
		return false, err
	}
	a.Mode, a.ModeEpoch, a.GateLacksSince = changed.Mode, changed.ModeEpoch, changed.GateLacksSince
	return !a.Direct(), nil
}

// ReturnOver makes the mode gate for activities whose gate is not due any more.
func (s *Service) ReturnOver(ctx context.Context, due []Activity, now time.Time) error {
	all, err := s.store.DegradedActivities(ctx, now)
	if err != nil {
		return err
	}
	var errs []error
	for i := range all {
		a := &all[i]
		if a.UsesGate() || slices.ContainsFunc(due, func(d Activity) bool { return d.ID == a.ID }) {
			continue
		}
		ready, err := s.MayReturn(ctx, a)
		if err == nil && ready {
			err = s.finishReturn(ctx, a.ID, a.ModeEpoch)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
