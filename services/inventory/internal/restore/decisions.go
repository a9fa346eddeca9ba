package restore

import (
	"context"
	"errors"
	"fmt"

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
