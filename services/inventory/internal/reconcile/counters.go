package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"

	"flashsale.internal/services/inventory/internal/core"
)

// counterErrors are what the counters of the gate lack, by SKU, as one exact comparison found it. The error of a
// counter is constant, because every script changes entries and counters equally. So a correction is safe while
// purchases and releases go on: it adds the error to the counter and never overwrites the counter. Only an adjustment
// that the gate had lost changes the error, when it arrives again (see resendAdjustments).
type counterErrors struct {
	lacks map[string]Correction
	held  int64 // of the counter of all units held
	// stocks are SKUs whose stock row and ledger rows do not add up, and by how much. The reconciler cannot determine
	// which of them is right.
	stocks map[string]int64
}

func (f counterErrors) gateOK() bool { return len(f.lacks) == 0 && f.held == 0 }

func (f counterErrors) none() bool { return f.gateOK() && len(f.stocks) == 0 }

// counterErrors compares the sums with the counters of gate and tables. An inexact comparison has none.
func (c *comparison) counterErrors() counterErrors {
	f := counterErrors{lacks: map[string]Correction{}, stocks: map[string]int64{}}
	if !c.exact {
		return f
	}
	var held int64
	for sku := range c.skus() {
		var want sums
		if s := c.entries[sku]; s != nil {
			want = *s
		}
		held += want.Held
		var total int64
		if it := c.after.Item(sku); it != nil {
			total = it.Total
			if by, wrong := c.stockError(it); wrong {
				f.stocks[sku] = by
			}
		}
		has := c.audit.SKUs[sku]
		lack := Correction{
			SKUID: sku, Left: total - want.Held - want.Sold - has.Left, Total: total - has.Total,
			Held: want.Held - has.Held, Sold: want.Sold - has.Sold,
			Unlanded: want.Unlanded - has.Journal - has.InFlight,
		}
		if lack != (Correction{SKUID: sku}) {
			f.lacks[sku] = lack
		}
	}
	f.held = held - c.audit.Held
	return f
}

// skus returns all SKUs of the activity, the gate's counters and its entries.
func (c *comparison) skus() map[string]bool {
	skus := map[string]bool{}
	for _, it := range c.after.Items {
		skus[it.SKUID] = true
	}
	for sku := range c.audit.SKUs {
		skus[sku] = true
	}
	for sku := range c.entries {
		skus[sku] = true
	}
	return skus
}

// stockError reports whether a stock row and the ledger rows of its SKU do not add up, and by how many units in all.
// A stock row that changed during the comparison is not compared.
func (c *comparison) stockError(it *core.Stock) (by int64, wrong bool) {
	var rows sums
	if s := c.rows[it.SKUID]; s != nil {
		rows = *s
	}
	if b := c.before.Item(it.SKUID); b == nil || *b != *it {
		return 0, false
	}
	return it.Reserved + it.Sold - rows.Held - rows.Sold, rows.Held != it.Reserved || rows.Sold != it.Sold
}

// roughlyAgrees is what can be checked of the counters while purchases go on: they add up, and gate and database
// agree.
func (c *comparison) roughlyAgrees() bool {
	for _, it := range c.after.Items {
		g := c.audit.SKUs[it.SKUID]
		if g.Left+g.Held+g.Sold != it.Total || g.Total != it.Total || it.Available != g.Left+g.Journal+g.InFlight {
			return false
		}
	}
	return true
}

// isQuiet reports whether this comparison may correct counters. The entries have to match the rows, except for
// purchases that are in flight in the ordinary way: the sums contain them, and they change entries and counters
// equally. No adjustment may be between its steps, as it changes the totals. idle reports that nothing is in flight,
// except purchases that wait for an operator.
func (p *pass) isQuiet(ctx context.Context, c *comparison) (quiet, idle bool, err error) {
	if !c.exact || !c.totalsStable || c.unexplained > 0 || len(p.result.Differences) > 0 {
		return false, false, nil
	}
	if len(c.open) > 0 || len(c.unlanded) > maxUnlanded {
		return true, false, nil
	}
	if len(c.unlanded) == 0 {
		return true, true, nil
	}
	open, err := p.Rows.OpenDeadLetters(ctx, c.unlanded)
	return true, len(open) == len(c.unlanded), err
}

// confirmations counts how many comparisons in a row found the same counter errors.
type confirmations struct {
	last                     counterErrors
	ofTheGate, ofTheDatabase int
}

func (x *confirmations) any() bool { return x.ofTheGate+x.ofTheDatabase > 0 }

// add counts one more comparison, and returns the errors that so many in a row found.
func (x *confirmations) add(f counterErrors, times int) (proven counterErrors) {
	count := func(n *int, same, none bool) bool {
		if !same || none {
			*n = 0
		}
		if !none {
			*n++
		}
		return *n >= times
	}
	if count(&x.ofTheGate, maps.Equal(x.last.lacks, f.lacks) && x.last.held == f.held, f.gateOK()) {
		proven.lacks, proven.held = f.lacks, f.held
	}
	if count(&x.ofTheDatabase, maps.Equal(x.last.stocks, f.stocks), len(f.stocks) == 0) {
		proven.stocks = f.stocks
	}
	x.last = f
	return proven
}

// correct raises an incident for each stock row that does not match the ledger, and adds to the gate's counters what
// they lack. First it resends all adjustments to the gate if a total is wrong: an adjustment that the gate lacks would
// be added a second time when it arrives. done reports that no other comparison is needed.
func (p *pass) correct(ctx context.Context, c *comparison, f counterErrors) (done bool, err error) {
	for _, sku := range sortedKeys(f.stocks) {
		p.Incidents.Raise(ctx, "stock "+p.activity.ID+" "+sku, "stock and ledger of a SKU do not add up",
			"activity_id", p.activity.ID, "sku_id", sku, "units", f.stocks[sku])
	}
	if f.gateOK() {
		return true, nil
	}
	if changed, err := p.resendAdjustments(ctx, c, f); err != nil || changed {
		return false, err
	}
	list := make([]Correction, 0, len(f.lacks))
	var deltas []SKUDelta
	for _, sku := range sortedKeys(f.lacks) {
		list = append(list, f.lacks[sku])
		deltas = append(deltas, SKUDelta{sku, f.lacks[sku].Left})
	}
	return false, p.applyCorrections(ctx, c, f.held, list, deltas)
}

func (p *pass) applyCorrections(
	ctx context.Context, c *comparison, held int64, list []Correction, deltas []SKUDelta,
) error {
	if err := p.Repairs.Correct(ctx, p.activity.ID, c.audit.Revision, held, list); err != nil {
		p.warnUnknownOutcome(ctx, err, "counters", "deltas", deltas)
		return err
	}
	p.repaired(ctx, Repair{Kind: RepairCounters, Deltas: deltas})
	return nil
}

// addMissingCounters adds missing counters, as 0. The build of a gate writes them and no script deletes them, so one
// comparison is enough. They must be added at once: a pending adjustment cannot complete without them, and counters
// are not corrected while an adjustment is pending.
func (p *pass) addMissingCounters(ctx context.Context, c *comparison) error {
	var list []Correction
	var deltas []SKUDelta
	for _, it := range c.after.Items {
		if _, known := c.audit.SKUs[it.SKUID]; !known || slices.Contains(c.audit.Incomplete, it.SKUID) {
			list = append(list, Correction{SKUID: it.SKUID})
			deltas = append(deltas, SKUDelta{it.SKUID, 0})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return p.applyCorrections(ctx, c, 0, list, deltas)
}

// resendAdjustments sends the gate every decided adjustment again, if a total is wrong. The gate ignores those that
// it has. changed reports that totals are not those of the comparison any more: an adjustment that the gate lacked has
// arrived, in this way or another.
func (p *pass) resendAdjustments(ctx context.Context, c *comparison, f counterErrors) (changed bool, err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Values(f.lacks)), func(c Correction) bool { return c.Total != 0 }) {
		return false, nil
	}
	before, err := p.Gate.Audit(ctx, p.activity.ID)
	if err != nil {
		return false, err
	}
	decided, err := p.Adjustments.DecidedAdjustments(ctx, p.activity.ID)
	if err != nil {
		return false, err
	}
	for _, a := range decided {
		// One that the gate does not take raises an incident, and the others are sent.
		if err := p.Gates.SendAdjustment(ctx, a); err != nil && !errors.Is(err, core.ErrGateBroken) {
			return false, err
		}
	}
	after, err := p.Gate.Audit(ctx, p.activity.ID)
	if err != nil {
		return false, err
	}
	if deltas := totalDeltas(before, after); len(deltas) > 0 {
		p.repaired(ctx, Repair{Kind: RepairAdjustment, Deltas: deltas})
	}
	return len(totalDeltas(c.audit, after)) > 0, nil
}

// totalDeltas returns by how much the totals changed. The units left changed by the same.
func totalDeltas(before, after core.GateAudit) []SKUDelta {
	var deltas []SKUDelta
	for _, sku := range sortedKeys(after.SKUs) {
		if d := after.SKUs[sku].Total - before.SKUs[sku].Total; d != 0 {
			deltas = append(deltas, SKUDelta{sku, d})
		}
	}
	return deltas
}

// notConfirmed is the difference of counters that were not wrong in enough comparisons in a row.
const notConfirmed = "the gate's counters do not match its entries; the difference could not be confirmed: " +
	"purchases in flight, or a difference that needs an operator"

// addDifferences adds to the result what the last comparison found and nothing repaired.
func (p *pass) addDifferences(c *comparison) {
	add := func(sku string, delta int64, why string) {
		p.result.Differences = append(p.result.Differences, Difference{SKUID: sku, Delta: delta, Why: why})
	}
	f := c.counterErrors()
	for _, sku := range sortedKeys(f.stocks) {
		add(sku, f.stocks[sku], "stock and ledger in the database do not add up; an operator has to decide")
	}
	for _, sku := range sortedKeys(f.lacks) {
		add(sku, f.lacks[sku].Left, notConfirmed)
	}
	if c.exact {
		return
	}
	for _, sku := range sortedKeys(p.rough) {
		add(sku, p.rough[sku], "gate and database differ, and purchases never paused; retry later")
	}
}
