package gate

import (
	"context"
	"errors"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
)

// MarkForImport implements gates.Registry.
func (g *Gate) MarkForImport(ctx context.Context, activityID, epoch string) error {
	_, err := g.gate.MarkForImport(ctx, activityID, epoch)
	return translate(err)
}

// RenewEpoch implements restore.Renewals.
func (g *Gate) RenewEpoch(
	ctx context.Context, activityID, epoch string, a core.Activity, adjusted []string,
) error {
	f := stockgate.Renewal{Config: config(a.GateConfig()), Totals: make(map[string]int64, len(a.Items)), Adjusted: adjusted}
	for _, it := range a.Items {
		f.Totals[it.SKUID] = it.Total
	}
	return translate(g.gate.RenewEpoch(ctx, activityID, epoch, f))
}

// RejournalHolding implements restore.Entries.
func (g *Gate) RejournalHolding(ctx context.Context, activityID string, orderSNs []string) (int, error) {
	n, err := g.gate.RejournalHolding(ctx, activityID, orderSNs)
	return n, translate(err)
}

// AdjustmentsOfGate implements restore.Renewals and reconcile.Holdings.
func (g *Gate) AdjustmentsOfGate(
	ctx context.Context, activityID string, cursor uint64,
) ([]core.KnownAdjustment, uint64, error) {
	page, next, err := g.gate.KnownAdjustments(ctx, activityID, cursor, surveyPage)
	list := make([]core.KnownAdjustment, len(page))
	for i, a := range page {
		list[i] = core.KnownAdjustment{ID: a.ID, SKUID: a.SKUID, Delta: a.Delta}
	}
	return list, next, translate(err)
}

// EndSale implements restore.Renewals.
func (g *Gate) EndSale(ctx context.Context, activityID string) error {
	a, err := g.gate.Audit(ctx, activityID)
	if err != nil {
		return translate(err)
	}
	if a.State != stockgate.GateEnded {
		c := a.Config
		c.State, c.ReorderLimit = stockgate.GateEnded, max(c.ReorderLimit, 0) // -1 if the gate has lost it
		if err := g.gate.OverrideConfig(ctx, activityID, a.Version, c); err != nil {
			return translate(err)
		}
	}
	sale, err := g.gate.Sale(ctx, activityID)
	if errors.Is(err, stockgate.ErrNoSale) || err == nil && sale.State == stockgate.GateEnded {
		return nil
	}
	if err != nil {
		return translate(err)
	}
	sale.State = stockgate.GateEnded
	return translate(g.gate.ReplaceSale(ctx, sale))
}
