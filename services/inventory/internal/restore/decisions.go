package restore

import (
	"context"
	"errors"
	"fmt"

	"flashsale.internal/services/inventory/internal/core"
)

// takeDecision takes over what merchants decided after the backup: the gate keeps its last version. A sale that was paused
// or ended does not open again, and a room does not return to an earlier rate. It comes first, so that what merchants
// decide from now on is later. A gate that is absent, or was damaged, has no such version.
func (m *Importer) takeDecision(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
	next := atStep(i, core.ImportRows)
	audit, err := m.Gate.Audit(ctx, i.ActivityID)
	if errors.Is(err, core.ErrNoGate) || errors.Is(err, core.ErrGateBroken) {
		return next, nil
	}
	if err != nil {
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
	f := core.Finding{
		Epoch: e.Number, ActivityID: i.ActivityID, Kind: core.FindingDecision, Subject: fmt.Sprint("version ", d.Version),
		Detail: d.Detail,
	}
	if !d.Possible {
		f.Kind = core.FindingDamage
		return next, m.find(ctx, []core.Finding{f})
	}
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
