package gate

import (
	"context"
	"errors"
	"fmt"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/gates"
	"flashsale.internal/services/inventory/internal/ledger"
)

// build implements gates.Build.
type build struct {
	build *stockgate.Build
}

// BeginBuild implements gates.Effects.
func (g *Gate) BeginBuild(ctx context.Context, activityID string) (gates.Build, error) {
	b, err := g.gate.BeginBuild(ctx, activityID)
	if err != nil {
		return nil, translateBuild(err)
	}
	return &build{b}, nil
}

func translateBuild(err error) error {
	if errors.Is(err, stockgate.ErrSuperseded) {
		return fmt.Errorf("%w: %w", core.ErrBuildSuperseded, err)
	}
	return translate(err)
}

// Put implements gates.Build. It leaves out rejected rows that no gate can have.
func (b *build) Put(ctx context.Context, rows []ledger.Row) error {
	entries := make([]stockgate.Entry, 0, len(rows))
	for _, row := range rows {
		if ledger.Purchasable(row.UserID, row.Lines) {
			entries = append(entries, entry(row))
		}
	}
	return translateBuild(b.build.Put(ctx, entries))
}

// PutAdjusted implements gates.Build.
func (b *build) PutAdjusted(ctx context.Context, ids []string) error {
	return translateBuild(b.build.PutAdjusted(ctx, ids))
}

// Commit implements gates.Build.
func (b *build) Commit(ctx context.Context, a core.Activity, endedBefore int64, epoch gates.GateEpoch) error {
	f := stockgate.Figures{
		Config: config(a.GateConfig()), SKUs: make(map[string]stockgate.Shelf, len(a.Items)), EndedBefore: endedBefore,
		Epoch: epoch.Value, Importing: epoch.Importing,
	}
	for _, it := range a.Items {
		f.SKUs[it.SKUID] = stockgate.Shelf{Left: it.Available, Held: it.Reserved, Sold: it.Sold, Total: it.Total}
	}
	return translateBuild(b.build.Commit(ctx, f))
}

// entry returns the entry that a ledger row has in a new gate.
func entry(r ledger.Row) stockgate.Entry {
	e := stockEntry(r.Entry())
	e.OrderSN, e.ReservedAt, e.Traceparent = r.OrderSN, r.ReservedAt, r.Traceparent
	if !r.Holds() {
		e.EndedAt = r.ChangedAt
	}
	return e
}
