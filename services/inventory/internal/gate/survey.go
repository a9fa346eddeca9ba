package gate

import (
	"context"
	"errors"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
)

// surveyPage bounds one script call of a look at all entries: about a millisecond.
const surveyPage = 250

func mark(m stockgate.Revision) core.GateMark {
	return core.GateMark{Life: m.Build, Repairs: m.Corrections}
}

func record(s stockgate.StoredEntry) core.GateRecord {
	r := core.GateRecord{
		OrderSN: s.OrderSN, UserID: s.UserID, Lines: s.Lines, ExpiresAt: s.ExpiresAt, Journaled: s.Journaled, Misfiled: s.IndexMismatch, Stored: s.Stored,
	}
	switch {
	case s.Broken:
		r.Stage = core.StageBroken
	case s.Status == stockgate.StatusQueued && s.Landed:
		r.Stage = core.StageLanded
	default:
		r.Stage = core.GateStage(s.Status)
	}
	return r
}

// Survey implements core.Gate.
func (g *Gate) Survey(ctx context.Context, r contract.GateRef, cursor uint64) ([]core.GateRecord, string, uint64, error) {
	page, life, next, err := g.gate.Survey(ctx, r, cursor, surveyPage)
	list := make([]core.GateRecord, len(page))
	for i, s := range page {
		list[i] = record(s)
	}
	return list, life, next, translate(err)
}

// Watch implements core.Gate.
func (g *Gate) Watch(ctx context.Context, r contract.GateRef) (string, error) {
	token, err := g.gate.TrackChanges(ctx, r)
	return token, translate(err)
}

// Tally implements core.Gate.
func (g *Gate) Tally(ctx context.Context, r contract.GateRef, token string) (core.GateAudit, []core.GateRecord, bool, error) {
	a, touched, err := g.gate.CollectChanges(ctx, r, token)
	if err != nil {
		if errors.Is(err, stockgate.ErrSuperseded) {
			err = nil
		}
		return core.GateAudit{}, nil, false, translate(err)
	}
	list := make([]core.GateRecord, len(touched))
	for i, s := range touched {
		if list[i] = record(s); s.Stored == "" {
			list[i].Stage = core.StageGone
		}
	}
	return audit(a), list, true, nil
}

// Inspect implements core.Gate.
func (g *Gate) Inspect(ctx context.Context, r contract.GateRef, orderSNs []string) (map[string]core.GateRecord, error) {
	found, err := g.gate.Inspect(ctx, r, orderSNs)
	out := make(map[string]core.GateRecord, len(found))
	for sn, s := range found {
		out[sn] = record(s)
	}
	return out, translate(err)
}

// MisfiledBuyers implements core.Gate.
func (g *Gate) MisfiledBuyers(ctx context.Context, r contract.GateRef, cursor uint64) ([]string, uint64, error) {
	users, next, err := g.gate.MismatchedBuyers(ctx, r, cursor, surveyPage)
	return users, next, translate(err)
}

// Repair implements core.Gate.
func (g *Gate) Repair(ctx context.Context, r contract.GateRef, life string, list []core.GateRepair) (map[string]bool, error) {
	items := make([]stockgate.Repair, len(list))
	for i, it := range list {
		to := stockgate.Entry{UserID: it.UserID, Lines: it.Lines, Reason: it.Reason, ExpiresAt: it.ExpiresAt}
		switch it.Stage {
		case core.StageLanded:
			to.Status, to.Landed = stockgate.StatusQueued, true
		default:
			to.Status = stockgate.Status(it.Stage)
		}
		items[i] = stockgate.Repair{OrderSN: it.OrderSN, Seen: it.Seen, Remove: it.Remove, To: to}
	}
	done, err := g.gate.Repair(ctx, r, life, items)
	return done, translate(err)
}

// Mend implements core.Gate.
func (g *Gate) Mend(ctx context.Context, r contract.GateRef, userID string, orderSNs []string) (bool, error) {
	changed, err := g.gate.RebuildBuyer(ctx, r, userID, orderSNs)
	return changed, translate(err)
}

// Correct implements core.Gate.
func (g *Gate) Correct(ctx context.Context, r contract.GateRef, seen core.GateMark, held int64, list []core.GateCorrection) error {
	items := make([]stockgate.Correction, len(list))
	for i, c := range list {
		items[i] = stockgate.Correction{
			SKUID: c.SKUID, Left: c.Left, Held: c.Held, Sold: c.Sold, Total: c.Total, Unlanded: c.Unlanded, Journal: c.Journaled,
		}
	}
	return translate(g.gate.Correct(ctx, r, stockgate.Revision{Build: seen.Life, Corrections: seen.Repairs}, held, items))
}

// Overrule implements core.Gate.
func (g *Gate) Overrule(ctx context.Context, r contract.GateRef, seenVersion int64, c core.GateConfig) error {
	return translate(g.gate.OverrideConfig(ctx, r, seenVersion, config(c)))
}
