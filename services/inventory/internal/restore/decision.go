package restore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"flashsale.internal/services/inventory/internal/core"
)

// takeDecision takes over what merchants decided after the backup: the gate keeps its last version. A sale that was paused
// or ended does not open again, and a room does not return to an earlier rate. It comes first, so that what merchants
// decide from now on is later. A gate that is absent has no such version, and one that is broken is listed.
func (m *Importer) takeDecision(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
	next := atStep(i, core.ImportRows)
	f := core.Finding{Epoch: e.Number, ActivityID: i.ActivityID, Kind: core.FindingDamage}
	audit, err := m.Gate.Audit(ctx, i.ActivityID)
	switch {
	case errors.Is(err, core.ErrNoGate):
		return next, nil
	case errors.Is(err, core.ErrGateBroken):
		f.Subject, f.Detail = "gate", "its configuration cannot be read"
		return next, m.find(ctx, []core.Finding{f})
	case err != nil:
		return i, err
	}
	a, err := m.Tables.AnyActivity(ctx, i.ActivityID)
	if err != nil || a == nil {
		return next, err
	}
	d, found := a.LostDecision(audit.Config)
	if !found {
		return next, nil
	}
	f.Subject, f.Detail = fmt.Sprint("version ", d.Version), d.Detail
	if !d.Possible {
		return next, m.find(ctx, []core.Finding{f})
	}
	f.Kind = core.FindingDecision
	if err := m.find(ctx, []core.Finding{f}); err != nil {
		return i, err
	}
	at, err := m.Tables.Now(ctx)
	if err != nil {
		return i, err
	}
	return next, m.Tables.TakeDecision(ctx, audit.Config, core.Change{
		At: at, Who: core.Reconciler, Action: core.ActionRestore, Object: "activity", ObjectID: i.ActivityID,
		Detail: map[string]string{"gate": d.Detail},
	})
}

// renew gives the gate the figures of the database and the epoch. It holds the locks of the stock, so that no decision
// about an adjustment is made meanwhile.
func (m *Importer) renew(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
	lost, err := m.lostAdjustments(ctx, i.ActivityID)
	if errors.Is(err, core.ErrNoGate) {
		return atStep(i, core.ImportEntries), nil
	}
	if err != nil {
		return i, err
	}
	findings := make([]core.Finding, len(lost))
	for n, a := range lost {
		findings[n] = core.Finding{
			Epoch: e.Number, ActivityID: i.ActivityID, Kind: core.FindingAdjustment, Subject: a.ID, Detail: detailOf(a),
		}
	}
	if err := m.find(ctx, findings); err != nil {
		return i, err
	}
	var activity *core.Activity
	err = m.Tables.Ledger(ctx, []string{i.ActivityID}, func(tx core.LedgerTx) error {
		if activity = tx.Activity(i.ActivityID); activity == nil {
			return nil
		}
		decided, err := tx.DecidedAdjustments(i.ActivityID)
		if err != nil {
			return err
		}
		return m.Gate.RenewEpoch(ctx, i.ActivityID, e.Value, *activity, decided)
	})
	switch {
	case errors.Is(err, core.ErrNoGate):
		return atStep(i, core.ImportEntries), nil
	case err != nil:
		return i, err
	case activity == nil:
		return atStep(i, core.ImportForeign), nil
	}
	i.Counts.Adjustments += int64(len(lost))
	m.Recorder.Info(ctx, "the gate has the present epoch and sells again", "activity_id", i.ActivityID)
	named, err := m.Tables.AnyActivity(ctx, i.ActivityID)
	if err != nil || named == nil {
		return i, err
	}
	return atStep(i, core.ImportDone), m.Gate.ReplaceSale(ctx, *named)
}

// detailOf describes a lost adjustment.
func detailOf(a core.KnownAdjustment) string {
	if a.SKUID == "" {
		return "undone"
	}
	return "SKU " + a.SKUID + ", " + strconv.FormatInt(a.Delta, 10) + " units: the stock does not contain it any more"
}

// lostAdjustments returns the adjustments that the gate has and the database does not have.
func (m *Importer) lostAdjustments(ctx context.Context, activityID string) (lost []core.KnownAdjustment, err error) {
	for cursor := uint64(0); ; {
		page, next, err := m.Gate.AdjustmentsOfGate(ctx, activityID, cursor)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(page))
		for n, a := range page {
			ids[n] = a.ID
		}
		known, err := m.Epochs.KnownAdjustments(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if !known[a.ID] {
				lost = append(lost, a)
			}
		}
		if cursor = next; cursor == 0 {
			return lost, nil
		}
	}
}
