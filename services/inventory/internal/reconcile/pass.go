package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// pass is one reconciliation of one activity. A pass of the timer makes a check first, and ends if nothing is wrong.
// Otherwise it repairs the allowances. Then it compares gate and ledger and repairs what differs, again and again,
// until a comparison finds nothing or no further comparison is made (see conclude).
type pass struct {
	*Reconciler
	activity *core.Activity
	actor    string // who requested it

	result    Result
	left      map[string]bool  // order_sns of result.Differences, so that each is there once
	rough     map[string]int64 // by SKU, by how much gate and database differed in every comparison so far
	confirmed confirmations
	took      time.Duration // of the latest comparison or check
	worked    time.Duration // of all comparisons, and of that of the allowances
	baseline  *baseline     // for the next checks, nil if they need a comparison first
}

// run makes a check. If that is not enough, it repairs the allowances, then compares and repairs until a comparison
// finds nothing or conclude ends the pass. A later reconciliation finds what this one could not confirm.
func (p *pass) run(ctx context.Context) error {
	defer p.noteCompared()
	if p.activity.State == core.ActivityDraft {
		p.result.ComparedAt = p.tableTime()
		return nil
	}
	if waits, err := p.waitsForImport(ctx); waits || err != nil {
		return err
	}
	if p.actor == Actor {
		if clean, err := p.check(ctx); clean || err != nil {
			return err
		}
	}
	began := p.Now()
	err := p.repairAllowances(ctx)
	p.worked += p.Now().Sub(began)
	if err != nil {
		return p.reportBroken(ctx, err)
	}
	for n := 1; ; n++ {
		if n > 1 {
			if err := wait(ctx, p.Config.Pause); err != nil {
				return err
			}
		}
		if done, err := p.compareAndRepair(ctx, n); done || err != nil {
			return err
		}
	}
}

// noteCompared records how long the last comparison or check took, and the baseline for the next checks. If the pass
// found something, there is none, and the duration is zero.
func (p *pass) noteCompared() {
	took, base := p.took, p.baseline
	if len(p.result.Repairs)+len(p.result.Differences) > 0 {
		took, base = 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	left := 0
	for _, d := range p.result.Differences {
		if d.Why != beingImported { // ends by itself
			left++
		}
	}
	p.compared[p.activity.ID] = compared{p.Now(), took, left, base}
}

// compareAndRepair makes comparison n and repairs what it found. done reports that no other comparison is needed.
func (p *pass) compareAndRepair(ctx context.Context, n int) (done bool, err error) {
	p.result.Differences, p.left = nil, nil
	p.result.ComparedAt = p.tableTime()
	began := p.Now()
	c, err := p.compare(ctx)
	p.took = p.Now().Sub(began)
	p.worked += p.took
	if errors.Is(err, core.ErrNoGate) {
		built, err := p.buildGate(ctx)
		if err != nil {
			return true, p.reportBroken(ctx, err)
		}
		return !built || n >= p.maxComparisons(), nil
	}
	if err != nil {
		return true, p.reportBroken(ctx, err)
	}
	if c.audit.Importing {
		p.addImporting()
		return true, nil
	}
	if lost, err := p.provesLoss(ctx, c); lost || err != nil {
		return true, err
	}
	if err := p.compareConfig(ctx, c); err != nil {
		return true, p.reportBroken(ctx, err)
	}
	repairs := len(p.result.Repairs)
	for _, repair := range []func(context.Context, *comparison) error{
		p.repairEntries, p.rebuildBuyers,
		p.addMissingCounters,
	} {
		if err := repair(ctx, c); err != nil {
			return true, err
		}
	}
	return p.conclude(ctx, c, n, len(p.result.Repairs) > repairs)
}

// conclude corrects counters that were wrong in enough comparisons, and decides whether another comparison is needed.
// If none follows, it adds what is left to the result.
func (p *pass) conclude(ctx context.Context, c *comparison, n int, repaired bool) (done bool, err error) {
	quiet, idle, err := p.isQuiet(ctx, c)
	if err != nil {
		return true, err
	}
	p.compareRoughly(c)
	yields := p.actor == Actor && !c.exact && overloaded(c.audit)
	done = n >= p.maxComparisons() || p.outOfTime(ctx) || yields
	switch f := c.counterErrors(); {
	case repaired:
		p.confirmed = confirmations{} // the counters changed
	case f.none() && (c.exact || c.roughlyAgrees()):
		p.baseline = p.baselineOf(c)
		return true, nil
	case !c.exact: // an inexact comparison does not show whether waiting helps
		done = done || !p.confirmed.any() && n >= p.Config.Confirmations
	case quiet:
		corrected, err := p.confirm(ctx, c, f, idle)
		if err != nil {
			return true, err
		}
		done = done || corrected
	}
	if done && (!yields || n > 1) { // a single comparison during an overload differs everywhere
		p.addDifferences(c)
	}
	return done, nil
}

// confirm counts counter errors of one more comparison, and corrects those that enough comparisons in a row found.
// While purchases are in flight, twice as many have to agree. done reports that no other comparison is needed.
func (p *pass) confirm(ctx context.Context, c *comparison, f counterErrors, idle bool) (done bool, err error) {
	times := p.Config.Confirmations
	if !idle {
		times *= 2
	}
	proven := p.confirmed.add(f, times)
	if proven.none() {
		return false, nil
	}
	done, err = p.correct(ctx, c, proven)
	p.confirmed = confirmations{}
	return done, err
}

// compareRoughly records by how much gate and database differ per SKU, if every comparison so far found the same
// difference. Units in flight change from comparison to comparison and drop out.
func (p *pass) compareRoughly(c *comparison) {
	now := map[string]int64{}
	for _, it := range c.after.Items {
		g := c.audit.SKUs[it.SKUID]
		d := it.Available - g.Left - g.Journal - g.InFlight
		if before, ok := p.rough[it.SKUID]; d != 0 && (p.rough == nil || ok && before == d) {
			now[it.SKUID] = d
		}
	}
	p.rough = now
}

// outOfTime reports whether the deadline of ctx leaves no time for another comparison.
func (p *pass) outOfTime(ctx context.Context) bool {
	end, bounded := ctx.Deadline()
	return bounded && end.Sub(p.Now()) < 4*p.Config.Pause+3*p.took
}

// maxComparisons bounds one reconciliation.
func (p *pass) maxComparisons() int { return 3*p.Config.Confirmations + 6 }

// buildGate builds the absent gate if it has to exist.
func (p *pass) buildGate(ctx context.Context) (built bool, err error) {
	due, err := p.Gates.Due(ctx, p.activity.ID)
	if err != nil || !due {
		return false, err
	}
	if err := p.Gates.Fill(ctx, p.activity.ID); err != nil {
		return false, err
	}
	p.repaired(ctx, Repair{Kind: RepairRebuilt})
	return true, nil
}

// rebuiltEntries bounds the entries of one RebuildBuyer.
const rebuiltEntries = 128

// rebuildBuyers rebuilds buyers' records and indexes that do not match the entries. One script checks and rebuilds
// each, and every script that changes entries also updates them. So purchases in flight neither cause a mismatch nor
// interfere with a rebuild.
func (p *pass) rebuildBuyers(ctx context.Context, c *comparison) error {
	for _, user := range sortedKeys(c.indexMismatches) {
		for sns := c.indexMismatches[user]; ; sns = sns[rebuiltEntries:] {
			changed, err := p.Repairs.RebuildBuyer(ctx, p.activity.ID, user, sns[:min(len(sns), rebuiltEntries)])
			if err != nil {
				return err
			}
			if changed {
				p.repaired(ctx, Repair{Kind: RepairBuyers})
			}
			if len(sns) <= rebuiltEntries {
				break
			}
		}
	}
	return nil
}

// repaired adds a repair to the result.
func (p *pass) repaired(ctx context.Context, r Repair) {
	p.result.Repairs = append(p.result.Repairs, r)
	p.Recorder.Repaired(ctx, p.activity.ID, r)
}

// leave adds a purchase that cannot be repaired to the result, and raises an incident.
func (p *pass) leave(ctx context.Context, f ledger.Finding, orderSN string) {
	if p.left[orderSN] {
		return
	}
	if p.left == nil {
		p.left = map[string]bool{}
	}
	p.left[orderSN] = true
	p.result.Differences = append(p.result.Differences, Difference{OrderSN: orderSN, Why: f.Why})
	p.Incidents.Raise(ctx, f.Incident+" "+orderSN, f.Incident, "activity_id", p.activity.ID, "order_sn", orderSN)
}

// reportBroken raises an incident if rows or a gate cannot be read, as nothing can be compared then. It returns other
// errors.
func (p *pass) reportBroken(ctx context.Context, err error) error {
	if !errors.Is(err, core.ErrGateBroken) && !errors.Is(err, core.ErrBrokenRow) {
		return err
	}
	p.result.Differences = append(p.result.Differences,
		Difference{Why: "the gate cannot be read, or cannot be built from the tables"})
	p.Incidents.RaiseBrokenGate(ctx, p.activity.ID, err)
	return nil
}

// recordTimeout bounds the write of the change log.
const recordTimeout = 5 * time.Second

// recordLines bounds the repairs of one entry of the change log: some ten kilobytes of text.
const recordLines = 100

// record writes the repairs of the pass into the change log. requested also writes an entry without repairs.
func (p *pass) record(ctx context.Context, requested bool) error {
	repairs := p.result.Repairs
	if len(repairs) == 0 && !requested {
		return nil
	}
	// Repairs are recorded even if the lock was lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	lines := make([]changeLine, len(repairs))
	for i, r := range repairs {
		lines[i] = lineOf(r)
	}
	if len(lines) == 0 {
		return p.recordChange(ctx, []changeLine{})
	}
	for part := range slices.Chunk(lines, recordLines) {
		if err := p.recordChange(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// PastRepairs returns the repairs of an entry of the change log, and the number of mismatches that were left.
func PastRepairs(c core.PastChange) (repairs []Repair, left int, err error) {
	var detail struct {
		Repairs []changeLine `json:"repairs"`
		Left    int          `json:"left"`
	}
	if err := json.Unmarshal([]byte(c.Detail), &detail); err != nil {
		return nil, 0, fmt.Errorf("repairs of change %s: %w", c.ID, err)
	}
	for _, l := range detail.Repairs {
		r := Repair{Kind: l.Kind, OrderSN: l.OrderSN, UserID: l.UserID}
		for _, sku := range sortedKeys(l.Deltas) {
			r.Deltas = append(r.Deltas, SKUDelta{SKUID: sku, Delta: l.Deltas[sku]})
		}
		repairs = append(repairs, r)
	}
	return repairs, detail.Left, nil
}

// changeLine is one repair in the change log.
type changeLine struct {
	OrderSN string            `json:"order_sn,omitempty"`
	UserID  string            `json:"user_id,omitempty"`
	Kind    ledger.RepairKind `json:"kind"`
	Deltas  map[string]int64  `json:"deltas,omitempty"`
}

func lineOf(r Repair) changeLine {
	l := changeLine{OrderSN: r.OrderSN, UserID: r.UserID, Kind: r.Kind}
	for _, d := range r.Deltas {
		if l.Deltas == nil {
			l.Deltas = map[string]int64{}
		}
		l.Deltas[d.SKUID] += d.Delta
	}
	return l
}

// role returns the role that is recorded with the repairs: only operators request a reconciliation.
func (p *pass) role() string {
	if p.actor == Actor {
		return ""
	}
	return core.RoleOperator
}

func (p *pass) recordChange(ctx context.Context, repairs []changeLine) error {
	return p.Activities.Record(ctx, core.Change{
		At: p.tableTime(), Who: p.actor, Role: p.role(), Action: core.ActionReconcile, Object: "activity",
		ObjectID: p.activity.ID, MerchantID: p.activity.MerchantID,
		Detail: map[string]any{"repairs": repairs, "left": len(p.result.Differences)},
	})
}
