package reconcile

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/services/inventory/internal/core"
)

// A check compares the counters of the gate with the sums of the tables instead of the entries with the rows. It costs
// one script call, and one statement that reads no row of the ledger. It relies on a baseline: the latest comparison of
// all entries, which found nothing. Every script changes entries and counters together, and every transaction changes
// rows, allowances and stock rows together. So what differs later in one of them shows in the counters, unless the
// damage leaves all of them equal.

// baseline is what a comparison of all entries with all rows found: every entry matched its row.
type baseline struct {
	at       time.Time     // when the comparison began, by the clock of the process
	took     time.Duration // how long the comparison took, with that of the allowances
	master   string        // Redis master before the comparison
	epoch    string        // of the gate
	revision core.GateRevision
	// holding and ended are the rows of purchases that hold units, and of those that do not, less the entries of such
	// purchases. Rows that no gate takes and entries without a row make the difference. Trimmed entries have a row.
	holding, ended int64
	open           []mismatch // purchases whose sync was in flight during the comparison
}

// maxOpen bounds the open purchases of a baseline.
const maxOpen = repairBatch

// baseline returns the baseline that the comparison gives, nil for none. There is none if entries were trimmed or the
// gate was built or corrected during the comparison, or if something is left that only another comparison resolves.
// took is the duration of the work of the whole pass.
func (c *comparison) baseline(took time.Duration) *baseline {
	first, last := c.first, c.audit
	if first.Trimmed != last.Trimmed || first.Revision != last.Revision || first.Epoch != last.Epoch ||
		c.unexplained > 0 || len(c.open) > maxOpen || c.invalid {
		return nil
	}
	return &baseline{
		at: c.began, took: took, master: c.master, epoch: last.Epoch, revision: last.Revision,
		holding: c.unpaired.holding, ended: c.unpaired.ended - last.Trimmed, open: c.open,
	}
}

// fullIdleFactor is the ratio of the interval of comparisons of all entries to the sum of their durations over all
// activities. So they need at most 1/50 of the time, up to maxFullRests times Config.FullEvery.
const (
	fullIdleFactor = 50
	maxFullRests   = 6
)

// validBaseline returns the baseline of the activity, nil if all entries have to be compared: there is none, or it is
// too old.
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

// Purchases in flight make gate and tables differ for some milliseconds. A check takes several samples and needs one
// that was taken while nothing was in flight.
const (
	maxSamples  = 8
	samplePause = 20 * time.Millisecond
)

// countersAgree makes a check. It returns false if all entries have to be compared.
func (p *pass) countersAgree(ctx context.Context) (bool, error) {
	b := p.validBaseline()
	if b == nil {
		return false, nil
	}
	p.result.ComparedAt = p.tableTime()
	began := p.Now()
	agree, err := p.check(ctx, b)
	p.took = p.Now().Sub(began)
	if errors.Is(err, core.ErrNoGate) || errors.Is(err, core.ErrGateBroken) {
		return false, nil // the comparison handles it
	}
	if agree {
		p.baseline = b
	}
	return agree, err
}

func (p *pass) check(ctx context.Context, b *baseline) (bool, error) {
	epoch, err := p.Store.PresentEpoch(ctx)
	if err != nil {
		return false, err
	}
	if agree, err := p.openAgree(ctx, b); !agree || err != nil {
		return false, err
	}
	for n := 1; ; n++ {
		s, err := p.sample(ctx)
		if err != nil {
			return false, err
		}
		if !b.continues(s, epoch.Value) {
			return false, nil
		}
		if b.matches(s) {
			return true, nil
		}
		if n == maxSamples {
			return false, nil
		}
		if err := wait(ctx, samplePause); err != nil {
			return false, err
		}
	}
}

// openAgree reads the purchases again whose sync was in flight, and reports whether they agree now.
func (p *pass) openAgree(ctx context.Context, b *baseline) (bool, error) {
	if len(b.open) == 0 {
		return true, nil
	}
	now, err := p.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	read, err := p.reread(ctx, b.open)
	if err != nil {
		return false, err
	}
	for _, m := range b.open {
		if !judge(read.row(m.orderSN), read.entry(m.orderSN), now).agrees() {
			return false, nil
		}
	}
	b.open = nil
	return true, nil
}

// sample is one reading of the counters and the sums. The two are of moments some milliseconds apart.
type sample struct {
	audit    core.GateAudit
	totals   Totals
	activity *core.Activity
	master   string
}

func (p *pass) sample(ctx context.Context) (s sample, err error) {
	if s.activity, err = p.readActivity(ctx); err != nil {
		return s, err
	}
	if s.audit, err = p.Gate.Audit(ctx, p.ref); err != nil {
		return s, err
	}
	if s.totals, err = p.Store.Totals(ctx, p.activity.ID); err != nil {
		return s, err
	}
	// After the counters: with an id read before, they could be those of a new master.
	s.master, err = p.Gate.ReplicationID(ctx)
	return s, err
}

// continues reports whether the gate is still that of the baseline: on the same Redis master, and neither built again
// nor corrected nor of another epoch.
func (b *baseline) continues(s sample, epoch string) bool {
	return s.master == b.master && s.audit.Epoch == b.epoch && b.epoch == epoch && s.audit.Revision == b.revision &&
		!s.audit.Importing && len(s.audit.Incomplete) == 0
}

// matches reports whether gate and tables agree in the sample. Purchases in the journal or on their way to the ledger
// are held in the gate and available in the tables.
func (b *baseline) matches(s sample) bool {
	want := s.activity.GateConfig()
	if s.audit.Config.Version != want.Version || !sameConfig(s.audit.Config, want) {
		return false
	}
	var held, taken int64
	for sku := range s.skus() {
		g, it := s.audit.SKUs[sku], s.totals.Stock[sku]
		if g.Left+g.Held+g.Sold != g.Total || g.Total != it.Total || g.Sold != it.Sold ||
			g.Left+g.Journal+g.InFlight != it.Available {
			return false
		}
		held += g.Held
		taken += it.Reserved + it.Sold
	}
	rows := s.totals.Rows
	holding := rows[core.StateReserved] + rows[core.StateSold]
	ended := rows[core.StateReleased] + rows[core.StateRejected]
	return held == s.audit.Held && taken == s.totals.Allowances &&
		holding-(s.audit.Entries-s.audit.Unlanded-s.audit.Ended) == b.holding &&
		ended-s.audit.Ended-s.audit.Trimmed == b.ended
}

// skus returns all SKUs of the gate's counters and of the stock rows.
func (s sample) skus() map[string]bool {
	skus := map[string]bool{}
	for sku := range s.audit.SKUs {
		skus[sku] = true
	}
	for sku := range s.totals.Stock {
		skus[sku] = true
	}
	return skus
}
