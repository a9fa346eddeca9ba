package core

import (
	"fmt"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// Bounds of an activity.
const (
	MaxRoomRate = 1_000_000 // places that a waiting room admits a second
	LastYear    = 2200      // of starts_at and ends_at
)

// LostDecision is what merchants decided about an activity in a version that only its gate has: a restore or a failover of
// the database lost it. A version reaches the gate after its commit.
type LostDecision struct {
	Version int64
	Detail  string // what the gate has, and the tables lack; for the operator
	// Possible means that a merchant can have decided it: it changes only what may change once an activity is published.
	// Anything else is damage of the gate.
	Possible bool
}

// LostDecision compares the configuration of a gate with the activity; found is false unless the gate's version is
// later. The gate is read first.
func (a *Activity) LostDecision(gate GateConfig) (d LostDecision, found bool) {
	has := a.GateConfig()
	if a.State == ActivityDraft || gate.Version <= a.Version {
		return LostDecision{}, false
	}
	d = LostDecision{Version: gate.Version, Possible: a.mayBecome(gate)}
	var list []string
	differs := func(what string, before, after any) {
		if before != after {
			list = append(list, fmt.Sprintf("%s %v instead of %v", what, after, before))
		}
	}
	moment := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	differs("state", has.State, gate.State)
	differs("starts_at", moment(has.StartsAt), moment(gate.StartsAt))
	differs("ends_at", moment(has.EndsAt), moment(gate.EndsAt))
	differs("per_user_limit", has.PerUserLimit, gate.PerUserLimit)
	differs("reorder_limit", has.ReorderLimit, gate.ReorderLimit)
	differs("admit_per_second", has.RoomRate, gate.RoomRate)
	differs("captcha", has.Challenge.String(), gate.Challenge.String())
	if len(list) == 0 {
		list = append(list, "nothing that the gate has; a text or degraded_sale may be lost")
	}
	d.Detail = strings.Join(list, ", ")
	return d, true
}

// mayBecome reports whether merchants can lead the activity to this configuration.
func (a *Activity) mayBecome(gate GateConfig) bool {
	switch gate.State {
	case ActivityPublished, ActivityPaused:
		if a.State == ActivityEnded {
			return false
		}
	case ActivityEnded:
	default:
		return false
	}
	return gate.StartsAt.Equal(a.StartsAt) && gate.PerUserLimit == a.PerUserLimit && gate.ReorderLimit == a.ReorderLimit &&
		!gate.EndsAt.Before(a.EndsAt) && gate.EndsAt.Year() <= LastYear &&
		(gate.RoomRate == 0) == (a.RoomRate == 0) && gate.RoomRate >= 0 && gate.RoomRate <= MaxRoomRate &&
		gate.Challenge.Validate() == nil
}

// TakeDecision makes the activity what its gate has. Its version is later than the gate's, for texts of that version may
// be lost. It returns false if the gate has no LostDecision, or one that is not Possible.
func (a *Activity) TakeDecision(gate GateConfig, now time.Time) bool {
	if d, found := a.LostDecision(gate); !found || !d.Possible {
		return false
	}
	if gate.State == ActivityEnded && a.State != ActivityEnded {
		a.EndedAt = &now
	}
	a.State, a.EndsAt, a.RoomRate = gate.State, gate.EndsAt, gate.RoomRate
	if gate.Challenge.On() {
		a.Challenge = gate.Challenge
	} else {
		a.Challenge.Kind = contract.ChallengeNone
	}
	a.Version, a.UpdatedAt = gate.Version+1, now
	return true
}
