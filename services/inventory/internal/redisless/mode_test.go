package redisless

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
)

// modeStore is a store of two activities. The figures of the first one cannot be read. The gate of the second one was
// last read at seen.
type modeStore struct {
	Sales
	Rows
	now, seen time.Time
	early     bool // the sales start in an hour
	change    func(*core.Activity)
	pending   core.PendingImports
}

func (s modeStore) PendingImports(context.Context) (core.PendingImports, error) {
	return s.pending, nil
}

func (s modeStore) Now(context.Context) (time.Time, error) { return s.now, nil }

func (s modeStore) activity(id string) core.Activity {
	starts := s.now.Add(-time.Hour)
	if s.early {
		starts = s.now.Add(time.Hour)
	}
	a := core.Activity{
		ID: id, State: core.ActivityPublished, Mode: contract.ModeGate, Degraded: &core.DegradedSale{PerSecond: 1},
		StartsAt: starts, EndsAt: s.now.Add(2 * time.Hour),
	}
	if s.change != nil {
		s.change(&a)
	}
	return a
}

func (s modeStore) DegradedActivities(context.Context, time.Time) ([]core.Activity, error) {
	return []core.Activity{s.activity("1"), s.activity("2")}, nil
}

func (s modeStore) figures() core.RedislessSale {
	return core.RedislessSale{SeenAt: s.seen, FiguresAt: s.seen, NotedAt: s.seen}
}

func (s modeStore) RedislessSales(_ context.Context, ids []string) (map[string]core.RedislessSale, error) {
	found := map[string]core.RedislessSale{}
	for _, id := range ids {
		if id == "1" {
			return nil, errors.New("figures of redisless sale 1: not JSON")
		}
		found[id] = s.figures()
	}
	return found, nil
}

func (s modeStore) ChangeMode(
	_ context.Context, id string, fn func(*core.Activity, *core.RedislessSale, time.Time) (bool, error),
) (*core.Activity, error) {
	a, figures := s.activity(id), s.figures()
	_, err := fn(&a, &figures, s.now)
	return &a, err
}

// warnings is a Recorder that counts the warnings.
type warnings struct {
	Recorder
	n int
}

func (w *warnings) Warn(context.Context, string, error) { w.n++ }

func TestASaleThatCannotBecomeRedislessHoldsUpNoOther(t *testing.T) {
	now := time.Now()
	lost := contact{lostSince: now.Add(-2 * lostAfter)}
	recorder := &warnings{}
	store := modeStore{now: now, seen: now.Add(-2 * lostAfter)}
	raised := &raised{}
	s := &Service{
		Deps: Deps{
			Sales: store, Rows: store, Recorder: recorder, Incidents: raised,
			Watch: &Watch{contacts: map[string]contact{"1": lost, "2": lost}},
		},
	}
	modes, err := s.Modes(t.Context(), map[string]time.Duration{"1": 2 * lostAfter, "2": 2 * lostAfter})
	require.NoError(t, err)
	require.Equal(t, contract.ModeGate, modes.Activities[0].Mode)
	require.Equal(t, contract.ModeRedisless, modes.Activities[1].Mode)
	require.Equal(t, 2, recorder.n, "one of each sale")
	require.Empty(t, raised.keys)

	// The gate was not read until it was lost: how many units have not landed is not known.
	store.seen = now.Add(-2*lostAfter - figuresSlack - time.Second)
	s.Sales, s.Rows = store, store
	modes, err = s.Modes(t.Context(), map[string]time.Duration{"2": 2 * lostAfter})
	require.NoError(t, err)
	require.Equal(t, contract.ModeGate, modes.Activities[1].Mode)
	require.Equal(t, []string{"gate not read 2"}, raised.keys)

	// Before the start a gate is read once a minute, and an outage may begin then.
	store.early = true
	store.seen = now.Add(-2*lostAfter - farEvery)
	s.Sales, s.Rows = store, store
	modes, err = s.Modes(t.Context(), map[string]time.Duration{"2": 2 * lostAfter})
	require.NoError(t, err)
	require.Equal(t, contract.ModeRedisless, modes.Activities[1].Mode)
	require.Len(t, raised.keys, 1)
	store.early = false

	// Another process of inventory has read it since.
	store.seen = now.Add(-time.Second)
	s.Sales, s.Rows = store, store
	modes, err = s.Modes(t.Context(), map[string]time.Duration{"2": 2 * lostAfter})
	require.NoError(t, err)
	require.Equal(t, contract.ModeGate, modes.Activities[1].Mode)
	require.Len(t, raised.keys, 1)
}

// The board promises what an outage that begins now finds: the sale becomes redisless once the gate is lost for
// lostAfter, or an incident is raised.
func TestReadinessIsWhatAnOutageFinds(t *testing.T) {
	now := time.Now()
	state := func(is core.ActivityState) func(*core.Activity) { return func(a *core.Activity) { a.State = is } }
	mode := func(is contract.SaleMode) func(*core.Activity) { return func(a *core.Activity) { a.Mode = is } }
	never := now.Sub(time.Time{})
	for _, c := range []struct {
		want   core.Readiness
		age    time.Duration // of the last reading
		early  bool
		change func(*core.Activity)
	}{
		{want: core.ReadinessReady},
		{want: core.ReadinessReady, age: figuresSlack},
		{want: core.ReadinessOutdated, age: figuresSlack + time.Millisecond},
		{want: core.ReadinessReady, age: figuresSlack + farEvery, early: true},
		{want: core.ReadinessOutdated, age: figuresSlack + farEvery + time.Millisecond, early: true},
		{want: core.ReadinessUnread, age: never},
		{want: core.ReadinessReady, change: state(core.ActivityPaused)},
		{want: core.ReadinessOutdated, age: time.Minute, change: state(core.ActivityPaused)},
		{want: core.ReadinessReady, change: mode(contract.ModeReturning)},
		{want: core.ReadinessOutdated, age: time.Minute, change: mode(contract.ModeReturning)},
		{want: core.ReadinessInactive, change: state(core.ActivityDraft)},
		{want: core.ReadinessInactive, change: state(core.ActivityEnded)},
		{want: core.ReadinessInactive, change: func(a *core.Activity) { a.EndsAt = now }},
		{want: core.ReadinessOff, change: func(a *core.Activity) { a.Degraded = nil }},
	} {
		store := modeStore{now: now, seen: now.Add(-c.age), early: c.early, change: c.change}
		if c.age == never {
			store.seen = time.Time{}
		}
		raised := &raised{}
		service := func() *Service {
			return &Service{Deps: Deps{
				Sales: store, Rows: store, Recorder: &warnings{}, Incidents: raised,
				Watch: &Watch{contacts: map[string]contact{"2": {lostSince: now.Add(-lostAfter)}}},
			}}
		}
		a := store.activity("2")
		ready, err := service().Readiness(t.Context(), &a)
		require.NoError(t, err)
		require.Equal(t, c.want, ready, "%+v", c)

		store.now = now.Add(lostAfter) // the reading stays, and the gate is lost since then
		store.change = func(b *core.Activity) {
			if b.ID == a.ID {
				*b = a
			}
		}
		modes, err := service().Modes(t.Context(), map[string]time.Duration{"2": lostAfter})
		require.NoError(t, err)
		goesOn := modes.Activities[1].Mode == contract.ModeRedisless
		require.Equal(t, c.want == core.ReadinessReady, goesOn, "%+v", c)
		if c.want == core.ReadinessUnread || c.want == core.ReadinessOutdated {
			require.Equal(t, []string{"gate not read 2"}, raised.keys, "%+v", c)
		} else {
			require.Empty(t, raised.keys, "%+v", c)
		}
	}

	// One that is redisless goes on, unless an import holds up its purchases.
	store := modeStore{now: now, seen: now.Add(-time.Hour), change: mode(contract.ModeRedisless)}
	for _, c := range []struct {
		pending core.PendingImports
		want    core.Readiness
	}{
		{nil, core.ReadinessReady},
		{core.PendingImports{"1": true}, core.ReadinessReady},
		{core.PendingImports{"2": true}, core.ReadinessImporting},
		{core.PendingImports{core.AllActivities: true}, core.ReadinessImporting},
	} {
		store.pending = c.pending
		a := store.activity("2")
		ready, err := (&Service{Deps: Deps{Sales: store, Rows: store}}).Readiness(t.Context(), &a)
		require.NoError(t, err)
		require.Equal(t, c.want, ready)
	}
}

// raised collects the keys of incidents.
type raised struct{ keys []string }

func (r *raised) Raise(_ context.Context, key, _ string, _ ...any) { r.keys = append(r.keys, key) }

// Both modes without the gate carry the rules of admission.
func TestModesCarryTheRules(t *testing.T) {
	for _, mode := range []contract.SaleMode{contract.ModeRedisless, contract.ModeReturning} {
		a := core.Activity{
			ID: "1", Mode: mode, State: core.ActivityPublished, RoomRate: 50,
			Challenge: contract.Challenge{Kind: contract.ChallengePow, Difficulty: 20},
		}
		sale := modeView(&a, figures{}).Sale
		require.EqualValues(t, 50, sale.RoomRate)
		require.Equal(t, "pow:20", sale.Challenge)
		require.Equal(t, []contract.AdmissionRule{contract.RuleRoom, contract.RuleChallenge}, sale.Rules)
		a.RoomRate, a.Challenge.Kind = 0, contract.ChallengeNone
		require.Empty(t, modeView(&a, figures{}).Sale.Rules)
	}
}
