package reconcile

import (
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// baseline is what checks rely on: the latest comparison of all entries with all rows, in which nothing was wrong. It
// is in the memory of this process only.
type baseline struct {
	at       time.Time     // when the comparison began, by the clock of the process
	took     time.Duration // how long the comparison took, with that of the allowances
	master   string        // Redis master, read before the comparison
	epoch    string        // of the gate
	revision core.GateRevision
	// holding and ended are the rows of purchases that hold units, and of those that do not, less the entries of such
	// purchases. Rows that no gate takes and entries without a row make the difference. Trimmed entries have a row.
	holding, ended int64
	// The entries of all rows that committed before changedSince, by the time of the database, matched them then, except
	// those in open: their sync was in flight.
	changedSince time.Time
	open         []mismatch
}

const (
	// maxOpen bounds the open purchases of a baseline.
	maxOpen = repairBatch
	// lateCommit bounds the time from the stamp of a changed row to its commit, the difference between the clocks of two
	// database servers included. A row that takes longer is compared with all others only.
	lateCommit = 30 * time.Second
)

// changedSince returns the time of change from which on a reading at this time may miss the present state of a row, or
// leaves the row alone because it changed within the grace.
func (p *pass) changedSince(now time.Time) time.Time {
	return now.Add(-max(p.Config.Grace, lateCommit))
}

// baselineOf returns the baseline that a comparison gives, nil for none. There is none if entries were trimmed or the
// gate was built or corrected during the comparison, or if something is left that only another comparison resolves.
func (p *pass) baselineOf(c *comparison) *baseline {
	first, last := c.first, c.audit
	if first.Trimmed != last.Trimmed || first.Revision != last.Revision || first.Epoch != last.Epoch ||
		c.unexplained > 0 || len(c.open) > maxOpen || c.invalid {
		return nil
	}
	return &baseline{
		at: c.began, took: p.worked, master: c.master, epoch: last.Epoch, revision: last.Revision,
		holding: c.unpaired.holding, ended: c.unpaired.ended - last.Trimmed,
		changedSince: p.changedSince(c.ledgerRead), open: c.open,
	}
}

// fullIdleFactor is the ratio of the interval of comparisons of all entries to the sum of their durations over all
// activities. So they need at most 1/50 of the time, up to maxFullRests times Config.FullEvery.
const (
	fullIdleFactor = 50
	maxFullRests   = 6
)

// validBaseline returns a copy of the baseline of the activity, nil if all entries have to be compared: there is none,
// or it is too old.
func (p *pass) validBaseline() *baseline {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.compared[p.activity.ID].baseline
	if b == nil {
		return nil
	}
	var all time.Duration
	for _, c := range p.compared {
		if c.baseline != nil {
			all += c.baseline.took
		}
	}
	rest := min(max(p.Config.FullEvery, fullIdleFactor*all), maxFullRests*p.Config.FullEvery)
	if !p.Now().Before(b.at.Add(rest)) {
		return nil
	}
	valid := *b
	return &valid
}

// isOf reports whether the gate is still that of the baseline: neither built again nor corrected nor of another epoch
// than the database, whose present one is given.
func (b *baseline) isOf(audit core.GateAudit, epoch string) bool {
	return audit.Epoch == b.epoch && b.epoch == epoch && audit.Revision == b.revision && !audit.Importing
}

// matches reports whether the counters of the gate and the totals of the tables, which were read later, are those that
// follow from entries and rows that match each other.
//
// A purchase that lands or ends in between, or whose sync after that is in flight, makes the numbers of rows and
// entries differ. Payments and adjustments leave the numbers equal. So they hide damage of the opposite sign in the
// same counters, as units that moved from held to sold, while exactly as many units are in flight.
func (b *baseline) matches(audit core.GateAudit, t Totals) bool {
	var taken int64
	for _, it := range t.Stock {
		taken += it.Reserved + it.Sold
	}
	holding := t.Rows[ledger.StateReserved] + t.Rows[ledger.StateSold]
	ended := t.Rows[ledger.StateReleased] + t.Rows[ledger.StateRejected]
	return unitsMatch(audit, t.Stock) && taken == t.Allowances &&
		holding-(audit.Entries-audit.Unlanded-audit.Ended) == b.holding &&
		ended-audit.Ended-audit.Trimmed == b.ended
}

// unitsMatch compares the counters of the gate with each other and with the stock rows. Units that have not landed are
// held in the gate and available in the tables.
func unitsMatch(audit core.GateAudit, stock map[string]core.Stock) bool {
	if len(audit.Incomplete) > 0 {
		return false
	}
	var held, unlanded int64
	matches := func(sku string) bool {
		g, it := audit.SKUs[sku], stock[sku]
		waiting := g.Journal + g.InFlight
		held += g.Held
		unlanded += waiting
		return g.Left+g.Held+g.Sold == g.Total && g.Total == it.Total && g.Sold == it.Sold &&
			g.Left+waiting == it.Available && waiting >= 0 && (waiting == 0 || audit.Unlanded > 0)
	}
	for sku := range audit.SKUs {
		if !matches(sku) {
			return false
		}
	}
	for sku := range stock {
		if _, known := audit.SKUs[sku]; !known && !matches(sku) {
			return false
		}
	}
	return held == audit.Held && unlanded >= audit.Unlanded // each purchase has a unit at least
}
