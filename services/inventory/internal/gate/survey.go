package gate

import (
	"context"
	"errors"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
	"flashsale.internal/services/inventory/internal/reconcile"
)

// surveyPage bounds one script call of a survey: it takes about a millisecond.
const surveyPage = 250

func revision(m stockgate.Revision) core.GateRevision {
	return core.GateRevision{Build: m.Build, Corrections: m.Corrections}
}

// stageOf returns the stage of an entry.
func stageOf(e stockgate.Entry) ledger.Stage {
	switch {
	case e.Broken:
		return ledger.StageBroken
	case e.Status == stockgate.StatusQueued && e.Landed:
		return ledger.StageLanded
	}
	return ledger.Stage(e.Status)
}

// stockEntry returns an entry as stockgate has it.
func stockEntry(e ledger.Entry) stockgate.Entry {
	to := stockgate.Entry{
		OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines, Status: stockgate.Status(e.Stage), Reason: e.Reason,
		ExpiresAt: e.ExpiresAt,
	}
	if e.Stage == ledger.StageLanded {
		to.Status, to.Landed = stockgate.StatusQueued, true
	}
	return to
}

func entryOf(s stockgate.StoredEntry) ledger.StoredEntry {
	return ledger.StoredEntry{
		Entry: ledger.Entry{
			OrderSN: s.OrderSN, UserID: s.UserID, Lines: s.Lines, Stage: stageOf(s.Entry), Reason: s.Reason,
			ExpiresAt: s.ExpiresAt,
		},
		IndexMismatch: s.IndexMismatch, Stored: s.Stored,
	}
}

// Survey implements restore.Entries and reconcile.Holdings.
func (g *Gate) Survey(
	ctx context.Context, activityID string, cursor uint64,
) ([]ledger.StoredEntry, string, uint64, error) {
	page, build, next, err := g.gate.Survey(ctx, activityID, cursor, surveyPage)
	list := make([]ledger.StoredEntry, len(page))
	for i, s := range page {
		list[i] = entryOf(s)
	}
	return list, build, next, translate(err)
}

// TrackChanges implements reconcile.Holdings.
func (g *Gate) TrackChanges(ctx context.Context, activityID string) (string, error) {
	token, err := g.gate.TrackChanges(ctx, activityID)
	return token, translate(err)
}

// CollectChanges implements reconcile.Holdings.
func (g *Gate) CollectChanges(
	ctx context.Context, activityID, token string,
) (core.GateAudit, []ledger.StoredEntry, bool, error) {
	a, changed, err := g.gate.CollectChanges(ctx, activityID, token)
	if err != nil {
		if errors.Is(err, stockgate.ErrSuperseded) {
			err = nil
		}
		return core.GateAudit{}, nil, false, translate(err)
	}
	list := make([]ledger.StoredEntry, len(changed))
	for i, s := range changed {
		if list[i] = entryOf(s); s.Stored == "" {
			list[i].Stage = ledger.StageDeleted
		}
	}
	return audit(a), list, true, nil
}

// Inspect implements reconcile.Holdings.
func (g *Gate) Inspect(ctx context.Context, activityID string, orderSNs []string) (map[string]ledger.StoredEntry, error) {
	found, err := g.gate.Inspect(ctx, activityID, orderSNs)
	out := make(map[string]ledger.StoredEntry, len(found))
	for sn, s := range found {
		out[sn] = entryOf(s)
	}
	return out, translate(err)
}

// MismatchedBuyers implements reconcile.Holdings.
func (g *Gate) MismatchedBuyers(ctx context.Context, activityID string, cursor uint64) ([]string, uint64, error) {
	users, next, err := g.gate.MismatchedBuyers(ctx, activityID, cursor, surveyPage)
	return users, next, translate(err)
}

// Repair implements restore.Entries and reconcile.Holdings.
func (g *Gate) Repair(
	ctx context.Context, activityID, build string, list []ledger.EntryRepair,
) (map[string]bool, error) {
	items := make([]stockgate.Repair, len(list))
	for i, it := range list {
		items[i] = stockgate.Repair{OrderSN: it.OrderSN, Seen: it.Read, Remove: it.Remove, To: stockEntry(it.Entry)}
	}
	done, err := g.gate.Repair(ctx, activityID, build, items)
	return done, translate(err)
}

// RebuildBuyer implements reconcile.Repairs.
func (g *Gate) RebuildBuyer(ctx context.Context, activityID, userID string, orderSNs []string) (bool, error) {
	changed, err := g.gate.RebuildBuyer(ctx, activityID, userID, orderSNs)
	return changed, translate(err)
}

// Correct implements reconcile.Repairs.
func (g *Gate) Correct(
	ctx context.Context, activityID string, read core.GateRevision, held int64, list []reconcile.Correction,
) error {
	items := make([]stockgate.Correction, len(list))
	for i, c := range list {
		items[i] = stockgate.Correction{
			SKUID: c.SKUID, Left: c.Left, Held: c.Held, Sold: c.Sold, Total: c.Total, Unlanded: c.Unlanded,
		}
	}
	revision := stockgate.Revision{Build: read.Build, Corrections: read.Corrections}
	return translate(g.gate.Correct(ctx, activityID, revision, held, items))
}

// OverrideConfig implements reconcile.Repairs.
func (g *Gate) OverrideConfig(ctx context.Context, activityID string, readVersion int64, c core.GateConfig) error {
	return translate(g.gate.OverrideConfig(ctx, activityID, readVersion, config(c)))
}
