package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// leftAheadFor is the time for which an entry may stay ahead of its row after an import: until an operator has
// reconciled the payments with the provider.
const leftAheadFor = ledger.GateKept

// deltas returns by how much a repair of this entry changes the units left.
func deltas(e *ledger.StoredEntry, to ledger.EntryRepair) []SKUDelta {
	by := map[string]int64{}
	if e.Holds() {
		for _, l := range e.Lines {
			by[l.SKUID] += l.Qty
		}
	}
	for _, l := range to.Lines {
		by[l.SKUID] += 0
		if to.Stage.Holds() {
			by[l.SKUID] -= l.Qty
		}
	}
	list := make([]SKUDelta, 0, len(by))
	for _, sku := range sortedKeys(by) {
		list = append(list, SKUDelta{sku, by[sku]})
	}
	return list
}

// repairBatch bounds the mismatches that are read again at a time.
const repairBatch = 256

// repairEntries reads the purchases again about which a comparison found gate and ledger to disagree. Where they still
// disagree, it writes the state of the row into the entry. It counts the purchases that it leaves alone: in flight, or
// unexplained.
//
// There is a pause between the two readings. A purchase that moved meanwhile, or whose row changed within the grace,
// is in flight and left alone: the message, call or sweep that changed it syncs the gate. A repair changes an entry
// only if it still is as it was read here. So neither a late nor a repeated attempt nor another reconciler touches a
// purchase that moved on.
func (p *pass) repairEntries(ctx context.Context, c *comparison) error {
	if len(c.mismatches) == 0 {
		return nil
	}
	if err := wait(ctx, p.Config.Pause); err != nil {
		return err
	}
	for list := range slices.Chunk(c.mismatches, repairBatch) {
		if err := p.repairMismatches(ctx, c, list); err != nil {
			return err
		}
	}
	return nil
}

// batch is one batch of mismatches, read again.
type batch struct {
	entries  map[string]ledger.StoredEntry // by order_sn, as the two below
	rows     map[string]ledger.Row         //
	findings map[string]ledger.Finding     // what is repaired
	ahead    map[string]bool               // left so by an import

	holding, ended, refused []ledger.EntryRepair
	refusedRows             []ledger.Row
}

func (p *pass) repairMismatches(ctx context.Context, c *comparison, list []mismatch) error {
	b, err := p.reread(ctx, list)
	if err != nil {
		return err
	}
	now, err := p.Activities.Now(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		p.decide(ctx, c, b, m, now)
	}
	// Purchases that hold units come first, so that the gate has them before it gets any units back.
	if err := p.applyRepairs(ctx, c, b, b.holding); err != nil {
		return err
	}
	if err := p.applyRepairs(ctx, c, b, b.ended); err != nil {
		return err
	}
	if len(b.refused) == 0 {
		return nil
	}
	if err := p.Gates.SettleBeforeReturning(ctx, p.activity.ID, b.refusedRows); err != nil {
		return err
	}
	return p.applyRepairs(ctx, c, b, b.refused)
}

// reread reads the entries first and then the rows, as ledger.Judge needs it.
func (p *pass) reread(ctx context.Context, list []mismatch) (*batch, error) {
	sns := make([]string, len(list))
	for i, m := range list {
		sns[i] = m.orderSN
	}
	b := &batch{findings: map[string]ledger.Finding{}}
	var err error
	if b.entries, err = p.Gate.Inspect(ctx, p.activity.ID, sns); err != nil {
		return nil, err
	}
	if b.rows, err = p.Rows.Reservations(ctx, sns); err != nil {
		return nil, err
	}
	now, err := p.Activities.Now(ctx)
	if err != nil {
		return nil, err
	}
	b.ahead, err = p.Imports.LeftAhead(ctx, p.activity.ID, sns, now.Add(-leftAheadFor))
	return b, err
}

// entry returns the entry of an order_sn, nil if the gate has none.
func (b *batch) entry(orderSN string) *ledger.StoredEntry {
	if e, ok := b.entries[orderSN]; ok {
		return &e
	}
	return nil
}

// row returns the row of an order_sn, nil if the ledger has none.
func (b *batch) row(orderSN string) *ledger.Row {
	if r, ok := b.rows[orderSN]; ok {
		return &r
	}
	return nil
}

// decide judges one mismatch: it agrees now, is in flight, cannot be repaired, or is added to the repairs of the
// batch.
func (p *pass) decide(ctx context.Context, c *comparison, b *batch, m mismatch, now time.Time) {
	e, row := b.entry(m.orderSN), b.row(m.orderSN)
	if row != nil && row.ActivityID != p.activity.ID {
		p.leave(ctx,
			ledger.Finding{
				Incident: "order_sn belongs to another activity",
				Why:      "the order_sn belongs to another activity in the ledger",
			}, m.orderSN)
		return
	}
	f := ledger.Judge(row, e, now)
	switch {
	case f.Agrees():
	case b.ahead[m.orderSN] && f.Ahead:
		c.open = append(c.open, m) // the status that its buyer reads does not fall before the payments are reconciled
	case m.moved(e, row) || row != nil && now.Sub(row.ChangedAt) < p.Config.Grace:
		if f.Ordinary() {
			c.open = append(c.open, m)
		} else {
			c.unexplained++
		}
	case f.Kind == "":
		p.leave(ctx, f, m.orderSN)
	default:
		b.add(m.orderSN, f, row)
	}
}

// add adds a repair to the group in whose turn it is applied.
func (b *batch) add(orderSN string, f ledger.Finding, row *ledger.Row) {
	b.findings[orderSN] = f
	switch {
	case row == nil || row.Holds():
		b.holding = append(b.holding, f.To)
	case row.Refused():
		b.refused, b.refusedRows = append(b.refused, f.To), append(b.refusedRows, *row)
	default:
		b.ended = append(b.ended, f.To)
	}
}

// applyRepairs writes one group of repairs into the gate.
func (p *pass) applyRepairs(ctx context.Context, c *comparison, b *batch, list []ledger.EntryRepair) error {
	if len(list) == 0 {
		return nil
	}
	done, err := p.Repairs.Repair(ctx, p.activity.ID, c.audit.Revision.Build, list)
	for _, to := range list {
		f := b.findings[to.OrderSN]
		if !done[to.OrderSN] {
			p.warnUnknownOutcome(ctx, err, string(f.Kind), "order_sn", to.OrderSN)
			c.unexplained++ // it moved just now; the next comparison reads it again
			continue
		}
		if f.Incident != "" {
			p.Recorder.Incident(ctx, f.Incident, "activity_id", p.activity.ID, "order_sn", to.OrderSN)
		}
		p.repaired(ctx, Repair{
			Kind: f.Kind, OrderSN: to.OrderSN, Traceparent: b.rows[to.OrderSN].Traceparent,
			Deltas: deltas(b.entry(to.OrderSN), to),
		})
	}
	return err
}

// warnUnknownOutcome logs a repair whose response was lost. If it took effect, the next comparison finds nothing to
// repair, and nothing else would be logged.
func (p *pass) warnUnknownOutcome(ctx context.Context, err error, what string, attrs ...any) {
	if errors.Is(err, core.ErrGateUnavailable) {
		p.Recorder.Info(ctx, "outcome of a repair is unknown",
			append([]any{"what", what, "activity_id", p.activity.ID}, attrs...)...)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
