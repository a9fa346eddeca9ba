package redisless

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Times of the change of modes. They are compared by the clock of the database.
const (
	// lostAfter is for how long a gate must not respond to this process, to all others, and to the process of seckill that
	// reports it, before the sale becomes redisless. steadyAfter is for how long it must respond before the mode is
	// gate again.
	lostAfter   = 3 * time.Second
	steadyAfter = 3 * time.Second
	// sellAfter is the time from the change to redisless to the first redisless purchase. Each process of seckill reads
	// the modes once a second, and hands over what it has accepted.
	sellAfter = 2 * time.Second
	// figuresSlack is by how much the last reading of a gate may precede the time from which on a process of seckill got
	// no response from it. Older figures lack purchases that were accepted since.
	figuresSlack = 5 * time.Second
	// lackOverlap is how much earlier than noted the changes begin that a gate gets before its mode is gate again. It
	// covers transactions that commit some time after they have stamped their rows.
	lackOverlap = 10 * time.Second
)

// Modes returns the modes of the activities with a degraded sale. lost has, by activity, for how long its gate did not
// respond to the caller, a process of seckill. If it responds to no process of inventory either, the mode becomes
// redisless.
func (s *Service) Modes(ctx context.Context, lost map[string]time.Duration) (contract.Modes, error) {
	now, err := s.Rows.Now(ctx)
	if err != nil {
		return contract.Modes{}, err
	}
	activities, err := s.Sales.DegradedActivities(ctx, now)
	if err != nil {
		return contract.Modes{}, err
	}
	modes := contract.Modes{Now: now, Activities: make([]contract.ActivityMode, 0, len(activities))}
	var others []string
	for i := range activities {
		a := &activities[i]
		if d, is := lost[a.ID]; is && !a.Redisless() && a.Degraded != nil && d >= lostAfter && s.Watch.lost(a.ID) {
			changed, unread, err := s.becomeRedisless(ctx, a.ID, d)
			if err == nil {
				a.Mode, a.Outage = changed.Mode, changed.Outage
				if unread {
					s.Incidents.Raise(ctx, "gate not read "+a.ID,
						"a sale cannot go on without its gate: the gate was not read until it was lost", "activity_id", a.ID)
				}
			} else { // it keeps no other sale from going on, and the caller reports it again
				s.Recorder.Warn(ctx, "mode of a sale not changed yet", fmt.Errorf("activity %s: %w", a.ID, err))
			}
		}
		if !a.UsesGate() {
			others = append(others, a.ID)
		}
	}
	sales, err := s.Sales.RedislessSales(ctx, others)
	if err != nil {
		return modes, err
	}
	for i := range activities {
		modes.Activities = append(modes.Activities, modeView(&activities[i], figures(sales[activities[i].ID])))
	}
	return modes, nil
}

func modeView(a *core.Activity, sale figures) contract.ActivityMode {
	m := contract.ActivityMode{ActivityID: a.ID, Mode: a.Mode, Outage: a.Outage}
	if a.Degraded != nil {
		m.PerSecond, m.Drop = a.Degraded.PerSecond, a.Degraded.Drop
	}
	if a.UsesGate() {
		return m
	}
	state := map[core.ActivityState]string{core.ActivityPublished: "open", core.ActivityPaused: "paused"}[a.State]
	if state == "" {
		state = "ended"
	}
	m.Sale = &contract.RedislessSale{
		Title: a.Title, Description: a.Description, ImageURL: a.ImageURL, State: state, StartsAt: a.StartsAt,
		EndsAt: a.EndsAt, PerUserLimit: a.PerUserLimit, PayWithinS: a.PayWithinS,
		Challenge: a.GateChallenge().String(), RoomRate: a.RoomRate,
	}
	if s := a.Seller; s != nil {
		m.Sale.Seller = &contract.RedislessSeller{Name: s.Name, TermsURL: s.TermsURL, Delivery: s.Delivery}
	}
	if n := a.Notice; n != nil {
		m.Sale.Notice = &contract.RedislessNotice{Text: n.Text, At: n.At}
	}
	if a.RoomRate > 0 {
		m.Sale.Rules = append(m.Sale.Rules, contract.RuleRoom)
	}
	if a.Challenge.On() {
		m.Sale.Rules = append(m.Sale.Rules, contract.RuleChallenge)
	}
	for _, it := range a.Items {
		m.Sale.Items = append(m.Sale.Items, contract.RedislessItem{
			SKUID: it.SKUID, Name: it.Name, ImageURL: it.ImageURL, Price: it.Price, ListPrice: it.ListPrice,
			Currency: a.Currency, Total: it.Total, Left: sale.left(it),
		})
	}
	return m
}

// becomeRedisless makes an activity redisless, if no process of inventory has read its gate for lostAfter, and
// the last one did until the gate was lost: else unread is true. lost is for how long a process of seckill has got no
// response.
func (s *Service) becomeRedisless(
	ctx context.Context, activityID string, lost time.Duration,
) (a *core.Activity, unread bool, err error) {
	changed := false
	read, landed, err := s.landedSince(ctx, activityID)
	if err != nil {
		return nil, false, err
	}
	a, err = s.Sales.ChangeMode(ctx, activityID, func(a *core.Activity, d *core.RedislessSale, now time.Time) (bool, error) {
		changed, unread = false, false
		if a.Redisless() || a.Degraded == nil || !active(a, now) {
			return false, nil
		}
		unread = outdated(a, d.SeenAt, now.Add(-lost))
		if unread || !d.SeenAt.Equal(read) || d.SeenAt.After(now.Add(-lostAfter)) {
			return false, nil
		}
		if a.UsesGate() {
			a.GateLacksSince = &d.SeenAt
		}
		a.Mode, a.Outage, a.ModeChangedAt = contract.ModeRedisless, a.Outage+1, &now
		(*figures)(d).hold(a, landed)
		changed = true
		return true, nil
	})
	if err == nil && changed {
		s.Recorder.Warn(ctx, "a sale goes on without its gate", fmt.Errorf("%w: activity %s",
			core.ErrGateUnavailable, activityID))
	}
	return a, unread, err
}

// active reports whether a sale is published and has not ended.
func active(a *core.Activity, now time.Time) bool {
	_, ended := a.EndedSince(now)
	return !ended && a.State != core.ActivityDraft && a.State != core.ActivityEnded
}

// outdated reports whether the gate was last read too long before it was lost: what it accepted since is not known.
func outdated(a *core.Activity, seen, lost time.Time) bool {
	slack := figuresSlack
	if lost.Before(a.StartsAt) { // the gate had accepted nothing then, and was read seldom
		slack += farEvery
	}
	return seen.Before(lost.Add(-slack))
}

// Readiness returns whether the sale would go on if its gate were lost now. One that is redisless goes on.
func (s *Service) Readiness(ctx context.Context, a *core.Activity) (core.Readiness, error) {
	if a.Degraded == nil {
		return core.ReadinessOff, nil
	}
	now, err := s.Rows.Now(ctx)
	if err != nil {
		return "", err
	}
	if !active(a, now) {
		return core.ReadinessInactive, nil
	}
	pending, err := s.Sales.PendingImports(ctx)
	if err != nil {
		return "", err
	}
	sales, err := s.Sales.RedislessSales(ctx, []string{a.ID})
	if err != nil {
		return "", err
	}
	switch seen := sales[a.ID].SeenAt; {
	case pending.Include(a.ID):
		return core.ReadinessImporting, nil
	case a.Redisless():
		return core.ReadinessReady, nil
	case seen.IsZero():
		return core.ReadinessUnread, nil
	case outdated(a, seen, now):
		return core.ReadinessOutdated, nil
	}
	return core.ReadinessReady, nil
}

// landedSince returns when the gate was last read, and by SKU the units of purchases that were in its figures and have
// landed since the end of that reading.
func (s *Service) landedSince(
	ctx context.Context, activityID string,
) (seen time.Time, landed map[string]int64, err error) {
	all, err := s.Sales.RedislessSales(ctx, []string{activityID})
	if err != nil {
		return seen, nil, err
	}
	sale := all[activityID]
	landed = map[string]int64{}
	states := []ledger.State{ledger.StateReserved, ledger.StateSold, ledger.StateReleased, ledger.StateRejected}
	for after := ""; sale.NotedAt.After(sale.SeenAt); {
		rows, _, next, err := s.Rows.ChangedReservations(ctx, activityID, states, sale.NotedAt, after, 512)
		if err != nil {
			return seen, nil, err
		}
		for _, r := range rows {
			if r.LandedAt.After(sale.NotedAt) && r.ReservedAt.Before(sale.FiguresAt) {
				for _, l := range r.Lines {
					landed[l.SKUID] += l.Qty
				}
			}
		}
		if after = next; next == "" {
			break
		}
	}
	return sale.SeenAt, landed, nil
}
