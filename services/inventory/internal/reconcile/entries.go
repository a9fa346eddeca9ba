package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// finding is the result of comparing one purchase in gate and ledger. The zero finding: they agree.
type finding struct {
	kind  RepairKind
	to    EntryRepair
	alarm string // the incident, if it must never happen
	why   string // set if it cannot be repaired
}

func (f finding) agrees() bool { return f.kind == "" && f.why == "" }

// ordinary reports whether a purchase in flight may have this finding: its entry is behind its row.
func (f finding) ordinary() bool { return f.kind == RepairSettled || f.kind == RepairReleased }

// trimmedAfter is the age from which the gate may have no entry of an ended row. It trims entries 24 h after their
// end by its own clock. The hour allows for clocks that differ, and for ends that reached the gate late.
const trimmedAfter = core.GateKept - time.Hour

// leftAheadFor is the time for which an entry may stay ahead of its row after an import: until an operator has
// reconciled the payments with the provider.
const leftAheadFor = core.GateKept

func (e *Entry) holds() bool { return e != nil && e.Stage.Holds() }

// judge compares the entry of a purchase with its row. row is nil if the ledger has none, e if the gate has none. The
// entry must have been read first:
//
// A state reaches the gate only after its commit, and states only rise. (If a refund released a sold row, its paid
// entry is behind, not ahead: see Reservation.Refunded.) So a row that is read after the entry is at least as far as
// anything that ever reached the entry, whatever happens meanwhile. An entry that is ahead of such a row is wrong,
// even with messages in flight: no waiting is needed. An entry that is behind may only wait for its sync. The caller
// decides by the age of the change whether it is wrong. In either case a repair is harmless: it writes a committed
// state, and a later state is written after it and stays.
func judge(row *ledger.Row, e *Entry, now time.Time) finding {
	switch {
	case row == nil && e == nil:
		return finding{}
	case row == nil:
		return judgeUnknown(e)
	case !ledger.Purchasable(row.UserID, row.Lines):
		return finding{}
	case e == nil:
		return judgeMissing(row, now)
	case e.Stage == ledger.StageBroken:
		return finding{kind: RepairRewritten, to: repairTo(row, e), alarm: "gate entry cannot be read"}
	case !row.Holds():
		return judgeEnded(row, e)
	}
	return judgeHolding(row, e)
}

// repairTo returns the repair that writes the state of the row into the entry.
func repairTo(row *ledger.Row, e *Entry) EntryRepair {
	want := row.Entry()
	to := EntryRepair{
		OrderSN: want.OrderSN, UserID: want.UserID, Lines: want.Lines, Stage: want.Stage, Reason: want.Reason,
		ExpiresAt: want.ExpiresAt,
	}
	if e != nil {
		to.Read = e.Stored
	}
	return to
}

// judgeMissing is judge of a purchase that the gate does not have.
func judgeMissing(row *ledger.Row, now time.Time) finding {
	switch {
	case row.Holds():
		return finding{kind: RepairAdopted, to: repairTo(row, nil)}
	case now.Sub(row.ChangedAt) >= trimmedAfter:
		return finding{}
	}
	return finding{kind: RepairForgotten, to: repairTo(row, nil)}
}

// aheadOf reports whether the entry is ahead of the row.
func (e *Entry) aheadOf(row *ledger.Row) bool {
	return e.Stage.Rank() > ledger.StageOf(*row).Rank() ||
		e.Stage == ledger.StagePaid && row.State != ledger.StateSold && !row.Refunded()
}

// judgeEnded is judge of a row that holds nothing.
func judgeEnded(row *ledger.Row, e *Entry) finding {
	to := repairTo(row, e)
	switch {
	case !e.holds():
		return finding{} // the reason that buyers saw first stays
	case e.aheadOf(row):
		return finding{kind: RepairOverruled, to: to, alarm: "gate entry is ahead of the ledger"}
	case e.Stage == ledger.StageCreated: // its buyer saw an order: closed, not failed
		to.Stage = ledger.StageClosed
	}
	return finding{kind: RepairReleased, to: to}
}

// judgeHolding is judge of a row that holds units.
func judgeHolding(row *ledger.Row, e *Entry) finding {
	to := repairTo(row, e)
	switch {
	case !e.holds():
		return finding{kind: RepairOverruled, to: to, alarm: "gate entry is terminal but the ledger row holds units"}
	case e.aheadOf(row):
		return finding{kind: RepairOverruled, to: to, alarm: "gate entry is ahead of the ledger"}
	case e.UserID != row.UserID && e.Stage == ledger.StageQueued:
		// Two purchases under one order_sn. The message of the one in the gate becomes a dead letter, which an
		// operator decides.
		return finding{
			alarm: "order_sn belongs to another buyer in the ledger",
			why:   "the order_sn belongs to another buyer in the ledger",
		}
	case e.UserID != row.UserID || !contract.SameLines(e.Lines, row.Lines):
		return finding{kind: RepairCorrected, to: to}
	case e.Stage.Rank() < ledger.StageOf(*row).Rank():
		return finding{kind: RepairSettled, to: to}
	case e.Stage == ledger.StageCreated && row.ExpiresAt != nil && !e.ExpiresAt.Equal(*row.ExpiresAt):
		return finding{kind: RepairSettled, to: to}
	}
	return finding{}
}

// judgeUnknown is judge of a purchase that the ledger does not have.
func judgeUnknown(e *Entry) finding {
	stage := e.Stage
	if stage == ledger.StageLanded && !ledger.Purchasable(e.UserID, e.Lines) {
		stage = ledger.StageBroken // no message could carry it into the ledger, and no repair may write it
	}
	switch stage {
	case ledger.StageQueued:
		// in flight: in the journal, the broker or a dead letter. sweep.Journal finds those that are lost.
		return finding{}
	case ledger.StageLanded, ledger.StageCreated, ledger.StagePaid:
		// The database has lost the row, and perhaps others: see provesLoss.
		return finding{alarm: "gate entry has landed but the ledger has no row", why: lostRow}
	case ledger.StageBroken:
		return finding{
			kind: RepairRemoved, alarm: "gate entry cannot be read",
			to: EntryRepair{OrderSN: e.OrderSN, Read: e.Stored, Remove: true},
		}
	}
	return finding{}
}

// deltas returns by how much a repair of this entry changes the units left.
func deltas(e *Entry, to EntryRepair) []SKUDelta {
	by := map[string]int64{}
	if e.holds() {
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
	entries  map[string]Entry      // by order_sn, as the two below
	rows     map[string]ledger.Row //
	findings map[string]finding    // what is repaired
	ahead    map[string]bool       // left so by an import

	holding, ended, refused []EntryRepair
	refusedRows             []ledger.Row
}

func (p *pass) repairMismatches(ctx context.Context, c *comparison, list []mismatch) error {
	b, err := p.reread(ctx, list)
	if err != nil {
		return err
	}
	now, err := p.Store.Now(ctx)
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

// reread reads the entries first and then the rows, as judge needs it.
func (p *pass) reread(ctx context.Context, list []mismatch) (*batch, error) {
	sns := make([]string, len(list))
	for i, m := range list {
		sns[i] = m.orderSN
	}
	b := &batch{findings: map[string]finding{}}
	var err error
	if b.entries, err = p.Gate.Inspect(ctx, p.activity.ID, sns); err != nil {
		return nil, err
	}
	if b.rows, err = p.Store.Reservations(ctx, sns); err != nil {
		return nil, err
	}
	now, err := p.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	b.ahead, err = p.Store.LeftAhead(ctx, p.activity.ID, sns, now.Add(-leftAheadFor))
	return b, err
}

// entry returns the entry of an order_sn, nil if the gate has none.
func (b *batch) entry(orderSN string) *Entry {
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
			finding{
				alarm: "order_sn belongs to another activity",
				why:   "the order_sn belongs to another activity in the ledger",
			}, m.orderSN)
		return
	}
	f := judge(row, e, now)
	switch {
	case f.agrees():
	case b.ahead[m.orderSN] && f.kind == RepairOverruled && row != nil && row.Holds() && e.holds():
		c.open = append(c.open, m) // the status that its buyer reads does not fall before the payments are reconciled
	case m.moved(e, row) || row != nil && now.Sub(row.ChangedAt) < p.Config.Grace:
		if f.ordinary() {
			c.open = append(c.open, m)
		} else {
			c.unexplained++
		}
	case f.kind == "":
		p.leave(ctx, f, m.orderSN)
	default:
		b.add(m.orderSN, f, row)
	}
}

// add adds a repair to the group in whose turn it is applied.
func (b *batch) add(orderSN string, f finding, row *ledger.Row) {
	b.findings[orderSN] = f
	switch {
	case row == nil || row.Holds():
		b.holding = append(b.holding, f.to)
	case row.Refused():
		b.refused, b.refusedRows = append(b.refused, f.to), append(b.refusedRows, *row)
	default:
		b.ended = append(b.ended, f.to)
	}
}

// applyRepairs writes one group of repairs into the gate.
func (p *pass) applyRepairs(ctx context.Context, c *comparison, b *batch, list []EntryRepair) error {
	if len(list) == 0 {
		return nil
	}
	done, err := p.Gate.Repair(ctx, p.activity.ID, c.audit.Revision.Build, list)
	for _, to := range list {
		f := b.findings[to.OrderSN]
		if !done[to.OrderSN] {
			p.warnUnknownOutcome(ctx, err, string(f.kind), "order_sn", to.OrderSN)
			c.unexplained++ // it moved just now; the next comparison reads it again
			continue
		}
		if f.alarm != "" {
			p.Recorder.Incident(ctx, f.alarm, "activity_id", p.activity.ID, "order_sn", to.OrderSN)
		}
		p.repaired(ctx, Repair{
			Kind: f.kind, OrderSN: to.OrderSN, Traceparent: b.rows[to.OrderSN].Traceparent,
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
