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
}

func (s modeStore) Now(context.Context) (time.Time, error) { return s.now, nil }

func (s modeStore) activity(id string) core.Activity {
	starts := s.now.Add(-time.Hour)
	if s.early {
		starts = s.now.Add(time.Hour)
	}
	return core.Activity{
		ID: id, State: core.ActivityPublished, Mode: contract.ModeGate, Degraded: &core.DegradedSale{PerSecond: 1},
		StartsAt: starts, EndsAt: s.now.Add(2 * time.Hour),
	}
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
