package reconcile

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// A check is what a pass of the timer makes instead of a comparison while it has a baseline. It repairs nothing: it
// either shows that nothing is wrong, or a comparison of all entries follows in the same pass. It compares
//
//   - the counters of the gate with each other, with the stock rows, and with the numbers of rows and the sum of the
//     allowances. Every script changes entries and counters together, and every transaction changes rows, allowances
//     and stock rows together;
//   - the purchases that changed since the check before: their rows with their entries. An effect that the gate never
//     got may leave all counters equal, as that of an order that was created.
//
// It does not see changes of single entries, rows, buyers' records or allowances by hand that leave all counters and
// sums equal. Only a comparison of all entries finds those.

// CheckOutcome is the result of a check. It labels the metric.
type CheckOutcome string

// The outcomes of checks. A comparison of all entries follows all but the first.
const (
	CheckClean     CheckOutcome = "clean"
	CheckNewGate   CheckOutcome = "new_gate"  // the gate, its master or its epoch is not that of the baseline
	CheckCounters  CheckOutcome = "counters"  // no sample of the counters matched: damage, or purchases without a pause
	CheckPurchases CheckOutcome = "purchases" // a purchase that changed differs in gate and ledger
)

// CheckOutcomes lists all outcomes.
var CheckOutcomes = []CheckOutcome{CheckClean, CheckNewGate, CheckCounters, CheckPurchases}

// A purchase in flight makes gate and tables differ for some milliseconds. A check takes several samples and needs one
// that was taken while none was in flight.
const (
	maxSamples  = 16
	samplePause = 20 * time.Millisecond
)

// check makes a check. It returns false if all entries have to be compared.
func (p *pass) check(ctx context.Context) (clean bool, err error) {
	b := p.validBaseline()
	if b == nil {
		return false, nil
	}
	p.result.ComparedAt = p.tableTime()
	began := p.Now()
	outcome, err := p.checkAgainst(ctx, b)
	p.took = p.Now().Sub(began)
	switch {
	case errors.Is(err, core.ErrNoGate) || errors.Is(err, core.ErrGateBroken) || errors.Is(err, core.ErrBrokenRow):
		return false, nil // the comparison handles it
	case err != nil:
		return false, err
	}
	p.Recorder.Checked(ctx, outcome)
	if outcome != CheckClean {
		return false, nil
	}
	p.baseline = b
	return true, nil
}

// checkAgainst makes a check. If nothing is wrong, the baseline has the present purchases afterwards.
func (p *pass) checkAgainst(ctx context.Context, b *baseline) (CheckOutcome, error) {
	epoch, err := p.Imports.PresentEpoch(ctx)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		audit, err := p.Gate.Audit(ctx, p.activity.ID)
		if err != nil {
			return "", err
		}
		if !b.isOf(audit, epoch.Value) {
			return CheckNewGate, nil
		}
		if matches, err := p.countersMatch(ctx, b, audit); err != nil {
			return "", err
		} else if matches {
			break
		}
		if n == maxSamples {
			return CheckCounters, nil
		}
		if err := wait(ctx, samplePause); err != nil {
			return "", err
		}
	}
	// After the counters: with an id that was read before, they could be those of a new master.
	master, err := p.Gate.ReplicationID(ctx)
	if err != nil {
		return "", err
	}
	if master != b.master {
		return CheckNewGate, nil
	}
	if agree, err := p.changesAgree(ctx, b); !agree || err != nil {
		return CheckPurchases, err
	}
	return CheckClean, nil
}

// countersMatch compares one reading of the counters with the tables. It reads the stock rows first, as the totals of
// a large activity take much longer.
func (p *pass) countersMatch(ctx context.Context, b *baseline, audit core.GateAudit) (bool, error) {
	a, err := p.readActivity(ctx)
	if err != nil {
		return false, err
	}
	stock := make(map[string]core.Stock, len(a.Items))
	for _, it := range a.Items {
		stock[it.SKUID] = it
	}
	want := a.GateConfig()
	if audit.Config.Version != want.Version || !sameConfig(audit.Config, want) || !unitsMatch(audit, stock) {
		return false, nil
	}
	totals, err := p.Activities.Totals(ctx, p.activity.ID)
	return err == nil && b.matches(audit, totals), err
}

// changesAgree reports whether the purchases agree whose rows changed since the last check, or whose sync was in
// flight then. Rows that changed within the grace are left to the next check.
func (p *pass) changesAgree(ctx context.Context, b *baseline) (bool, error) {
	now, err := p.Activities.Now(ctx)
	if err != nil {
		return false, err
	}
	if agree, err := p.purchasesAgree(ctx, b.open, now); !agree || err != nil {
		return false, err
	}
	for _, state := range allStates {
		for after := (*core.ReservationPlace)(nil); ; {
			page, err := p.Rows.RowVersions(ctx, p.activity.ID, state, b.changedSince, after, repairBatch)
			if err != nil {
				return false, err
			}
			var list []mismatch
			for _, v := range page {
				if now.Sub(v.ChangedAt) >= p.Config.Grace {
					list = append(list, mismatch{orderSN: v.OrderSN})
				}
			}
			if agree, err := p.purchasesAgree(ctx, list, now); !agree || err != nil {
				return false, err
			}
			if len(page) < repairBatch {
				break
			}
			last := page[len(page)-1]
			after = &core.ReservationPlace{ChangedAt: last.ChangedAt, OrderSN: last.OrderSN}
		}
	}
	b.open, b.changedSince = nil, p.changedSince(now)
	return true, nil
}

// purchasesAgree reports whether at most repairBatch purchases agree in gate and ledger. One whose row changed within
// the grace counts as agreeing.
func (p *pass) purchasesAgree(ctx context.Context, list []mismatch, now time.Time) (bool, error) {
	if len(list) == 0 {
		return true, nil
	}
	read, err := p.reread(ctx, list)
	if err != nil {
		return false, err
	}
	for _, m := range list {
		row := read.row(m.orderSN)
		if row != nil && now.Sub(row.ChangedAt) < p.Config.Grace {
			continue
		}
		if !ledger.Judge(row, read.entry(m.orderSN), now).Agrees() {
			return false, nil
		}
	}
	return true, nil
}
