package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// The differences of a gate that has more than the database.
const (
	lostAdjustment = "the gate has an adjustment that the database has lost"
	lostVersion    = "the gate has a version of the activity that the database has lost"
	beingImported  = "an import after a restore is not complete; nothing is compared until then"
)

// proof is what a gate has although only a commit of this database can have made it, and the database does not have
// it: ids of adjustments, order_sns of entries that have landed, and versions of the activity. The process that made a
// commit writes it into the gate afterwards, and no row of these tables is ever deleted, not even by a sweep. The gate
// is read first. So the database has lost commits: it was restored, or a failover lost them.
type proof struct {
	epoch    string   // of the database
	subjects []string // sorted
}

// confirms reports whether two reconciliations found the same proof.
func (x proof) confirms(before proof) bool {
	return x.epoch == before.epoch && slices.ContainsFunc(x.subjects, func(s string) bool {
		_, found := slices.BinarySearch(before.subjects, s)
		return found
	})
}

// waitsForImport reports whether an import into the activity is not complete.
func (p *pass) waitsForImport(ctx context.Context) (bool, error) {
	pending, err := p.Imports.PendingImports(ctx)
	if err != nil || !pending.Include(p.activity.ID) {
		return false, err
	}
	p.addImporting()
	return true, nil
}

func (p *pass) addImporting() {
	p.result.ComparedAt = p.tableTime()
	p.result.Differences = append(p.result.Differences, Difference{Why: beingImported})
}

// provesLoss searches for a proof that the database has lost commits. If there is one, nothing is repaired: a repair would
// make buyers and stock follow a ledger that is incomplete. The second reconciliation in a row with the same proof draws
// a new epoch.
func (p *pass) provesLoss(ctx context.Context, c *comparison) (bool, error) {
	epoch, err := p.Imports.PresentEpoch(ctx)
	if err != nil {
		return false, err
	}
	found := proof{epoch: epoch.Value}
	if d, lost := c.after.LostDecision(c.audit.Config); lost && d.Possible {
		found.subjects = append(found.subjects, fmt.Sprint("version ", d.Version))
		p.result.Differences = append(p.result.Differences, Difference{Why: lostVersion + ": " + d.Detail})
	}
	if err := p.findLostAdjustments(ctx, &found); err != nil {
		return false, err
	}
	if err := p.findLostRows(ctx, c, &found); err != nil {
		return false, err
	}
	slices.Sort(found.subjects)
	p.mu.Lock()
	before, again := p.proofs[p.activity.ID]
	delete(p.proofs, p.activity.ID)
	if len(found.subjects) > 0 {
		p.proofs[p.activity.ID] = found
	}
	p.mu.Unlock()
	if len(found.subjects) == 0 {
		return false, nil
	}
	p.Incidents.Raise(ctx, "lost "+p.activity.ID, "the database has lost what a gate has", "activity_id", p.activity.ID,
		"subjects", len(found.subjects))
	if again && found.confirms(before) {
		return true, p.Epochs.DrawEpoch(ctx, epoch.Value, core.CauseProof)
	}
	return true, nil
}

// findLostAdjustments adds the adjustments that the gate has and the database does not have.
func (p *pass) findLostAdjustments(ctx context.Context, found *proof) error {
	for cursor := uint64(0); ; {
		page, next, err := p.Gate.AdjustmentsOfGate(ctx, p.activity.ID, cursor)
		if err != nil {
			return err
		}
		ids := make([]string, len(page))
		for i, a := range page {
			ids[i] = a.ID
		}
		known, err := p.Adjustments.KnownAdjustments(ctx, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !known[id] {
				found.subjects = append(found.subjects, "adjustment "+id)
				p.result.Differences = append(p.result.Differences, Difference{Why: lostAdjustment + ": " + id})
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// findLostRows adds the entries that have landed and whose row the database does not have.
func (p *pass) findLostRows(ctx context.Context, c *comparison, found *proof) error {
	var list []mismatch
	for _, m := range c.mismatches {
		if m.stored != 0 && m.changed.IsZero() {
			list = append(list, m)
		}
	}
	for chunk := range slices.Chunk(list, repairBatch) {
		b, err := p.reread(ctx, chunk)
		if err != nil {
			return err
		}
		for _, m := range chunk {
			e := b.entry(m.orderSN)
			if e == nil || b.row(m.orderSN) != nil {
				continue
			}
			// Only a committed row can have made such an entry what it is.
			if f := ledger.Judge(nil, e, time.Time{}); f.Why == ledger.LostRow {
				found.subjects = append(found.subjects, m.orderSN)
				p.leave(ctx, f, m.orderSN)
			}
		}
	}
	return nil
}
