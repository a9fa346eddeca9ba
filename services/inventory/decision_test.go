package inventory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// decisions are what a merchant decides about an open sale with a waiting room after the backup.
var decisions = []struct {
	name  string
	make  func(w *world, a *core.Activity) error
	gate  func(c *core.GateConfig) // what follows from it
	after stockgate.Outcome        // of a purchase once the import is complete
}{
	{"paused", func(w *world, a *core.Activity) error {
		_, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
		return err
	}, func(c *core.GateConfig) { c.State = core.ActivityPaused }, stockgate.Paused},
	{"ended", func(w *world, a *core.Activity) error {
		_, err := w.merchants.End(w.ctx, seller("m"), a.ID)
		return err
	}, func(c *core.GateConfig) { c.State = core.ActivityEnded }, stockgate.Ended},
	{"ended while paused", func(w *world, a *core.Activity) error {
		if _, err := w.merchants.Pause(w.ctx, seller("m"), a.ID); err != nil {
			return err
		}
		_, err := w.merchants.End(w.ctx, seller("m"), a.ID)
		return err
	}, func(c *core.GateConfig) { c.State = core.ActivityEnded }, stockgate.Ended},
	{"a later end, another rate and a challenge", func(w *world, a *core.Activity) error {
		end, rate, kind := a.EndsAt.Add(time.Hour), int64(77), contract.ChallengePow
		_, err := w.merchants.PatchActivity(w.ctx, seller("m"), a.ID, merchants.ActivityPatch{
			EndsAt: &end, RoomRate: &rate, Challenge: merchants.ChallengeChange{Kind: &kind},
		})
		return err
	}, func(c *core.GateConfig) {
		c.EndsAt, c.RoomRate = c.EndsAt.Add(time.Hour), 77
		c.Challenge = contract.Challenge{Kind: contract.ChallengePow, Difficulty: contract.DefaultChallengeDifficulty}
	}, stockgate.Accepted},
}

// roomySale publishes a sale with a waiting room that also sells without Redis.
func (w *world) roomySale() *core.Activity {
	w.t.Helper()
	a := w.draft(1, 20)
	rate := int64(50)
	_, err := w.merchants.PatchActivity(w.ctx, seller("m"), a.ID, merchants.ActivityPatch{
		RoomRate: &rate, SetDegraded: true, Degraded: &core.DegradedSale{PerSecond: 10},
	})
	require.NoError(w.t, err)
	a, err = w.merchants.Publish(w.ctx, seller("m"), a.ID)
	require.NoError(w.t, err)
	return a
}

func (w *world) config(a *core.Activity) core.GateConfig {
	w.t.Helper()
	audit, err := w.parts.Gate.Audit(w.ctx, a.ID)
	require.NoError(w.t, err)
	return audit.Config
}

func (w *world) activity(a *core.Activity) *core.Activity {
	w.t.Helper()
	now, err := w.parts.Store.AnyActivity(w.ctx, a.ID)
	require.NoError(w.t, err)
	return now
}

// A restore undoes no decision: the sale stays as its merchant left it after the backup, in tables, gate and document,
// and the operator reads what was taken over.
func TestARestoreKeepsDecisions(t *testing.T) {
	t.Parallel()
	for _, d := range decisions {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.roomySale()
			want := w.config(a)
			b := w.backup()
			require.NoError(t, d.make(w, a))
			lost := w.activity(a)
			w.restore(b)
			w.newEpoch()
			w.imports()

			d.gate(&want)
			want.Version = lost.Version + 1
			require.Equal(t, want, w.config(a))
			now := w.activity(a)
			require.Equal(t, want, now.GateConfig(), "the tables")
			require.Equal(t, lost.EndedAt == nil, now.EndedAt == nil)
			document, err := w.gate.Sale(w.ctx, a.ID)
			require.NoError(t, err)
			require.Equal(t, want.Version, document.Version)
			require.Equal(t, d.after, w.sells(a))
			require.Len(t, w.findings(), 1)
			require.Contains(t, w.findings(), fmt.Sprint("version ", lost.Version))
			w.imports() // nothing is left to take over
			require.Equal(t, want.Version, w.activity(a).Version)
			var actions []string
			require.NoError(t, w.db.Table("changes").Where("object_id = ?", a.ID).Order("id").Pluck("action", &actions).Error)
			require.Equal(t, "activity.restore", actions[len(actions)-1])
		})
	}
}

// A decision after a restore waits until those before it are taken over: it is the later one.
func TestDecisionsWaitForTheirPredecessors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, draft := w.roomySale(), w.draft(1, 1)
	b := w.backup()
	_, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	w.restore(b)
	w.newEpoch()
	_, err = w.merchants.Resume(w.ctx, seller("m"), a.ID) // the tables have it open, so this would change nothing
	require.Equal(t, contract.CodeUnavailable, contract.CodeOf(err))
	title := "Better"
	_, err = w.merchants.PatchActivity(w.ctx, seller("m"), draft.ID, merchants.ActivityPatch{Title: &title})
	require.NoError(t, err, "of a draft there is nothing to take over")
	w.imports()
	require.Equal(t, core.ActivityPaused, w.config(a).State)
	_, err = w.merchants.Resume(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	require.Equal(t, stockgate.Accepted, w.sells(a))
}

// A text that was changed after the backup is lost, and listed. What is decided after the restore stays.
func TestARestoreListsAVersionThatItCannotBringBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.roomySale()
	b := w.backup()
	title := "Better"
	_, err := w.merchants.PatchActivity(w.ctx, seller("m"), a.ID, merchants.ActivityPatch{Title: &title})
	require.NoError(t, err)
	w.restore(b)
	w.newEpoch()
	w.imports()
	require.Len(t, w.findings(), 1)
	_, err = w.merchants.Pause(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	require.Equal(t, stockgate.Paused, w.sells(a))
}

// No damage of a gate is taken for a decision: what no merchant can have decided stays as the database has it.
func TestADamagedVersionIsNoDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.roomySale()
	want := w.config(a)
	for _, damage := range [][]any{
		{"starts", "1"}, {"ends", "1"}, {"ends", "9999999999999999"}, {"limit", "9"}, {"room", "0"}, {"reorders", "7"},
	} {
		b := w.backup()
		require.NoError(t, w.rdb.HSet(w.ctx, gateKey(a, "gate"), append([]any{"state", "paused", "version", "9"}, damage...)...).Err())
		w.restore(b)
		w.newEpoch()
		w.imports()
		require.Equal(t, want, w.config(a), "%v", damage)
		require.Equal(t, want, w.activity(a).GateConfig(), "%v", damage)
		require.Equal(t, map[string]string{"version 9": core.FindingDamage}, w.findings(), "%v", damage)
	}
}

// A failover of the database that lost only the pause of a sale is proved by its gate: the sale stays paused.
func TestALostPauseIsProvedByTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.roomySale()
	b := w.backup()
	_, err := w.merchants.Pause(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	w.restore(b)
	for range 2 {
		require.Empty(t, w.reconcile(a).Repairs)
		require.Equal(t, core.ActivityPaused, w.config(a).State, "nothing is repaired")
	}
	require.True(t, w.importing())
	w.imports()
	require.Equal(t, core.ActivityPaused, w.config(a).State)
	require.Equal(t, core.ActivityPaused, w.activity(a).State)
	_, err = w.merchants.Resume(w.ctx, seller("m"), a.ID)
	require.NoError(t, err)
	require.Equal(t, stockgate.Accepted, w.sells(a))
}
