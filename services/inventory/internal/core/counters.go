package core

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// counterErrors are what the counters of the gate lack, by SKU, as one exact look found it. Whatever a counter lacks, it
// lacks before and after every script: each moves entries and counters by the same. That is what makes the correction safe
// beside traffic: it adds what is lacking, it sets nothing, and it does not matter what is bought or given back in between.
type counterErrors struct {
	lacks map[string]GateCorrection
	held  int64 // of the pieces held in all
	// stocks are SKUs whose stock row and ledger rows do not add up. Which of them is right nobody can tell from here.
	stocks map[string]int64
}

func (f counterErrors) agree() bool {
	return len(f.lacks) == 0 && f.held == 0 && len(f.stocks) == 0
}

// figures compares what the look has counted with what gate and tables say.
func (l *look) figures() counterErrors {
	f := counterErrors{lacks: map[string]GateCorrection{}, stocks: map[string]int64{}}
	if !l.exact {
		return f
	}
	skus := map[string]bool{}
	for _, it := range l.after.Items {
		skus[it.SKUID] = true
	}
	for sku := range l.audit.SKUs {
		skus[sku] = true
	}
	for sku := range l.held {
		skus[sku] = true
	}
	var held int64
	for sku := range skus {
		var want, rows figures
		if h := l.held[sku]; h != nil {
			want = *h
		}
		held += want.Held
		var total int64
		if it := l.after.Item(sku); it != nil {
			total = it.Total
			if r := l.ledger[sku]; r != nil {
				rows = *r
			}
			if b := l.before.Item(sku); b != nil && *b == *it && (rows.Held != it.Reserved || rows.Sold != it.Sold) {
				f.stocks[sku] = it.Reserved + it.Sold - rows.Held - rows.Sold
			}
		}
		has := l.audit.SKUs[sku]
		c := GateCorrection{
			SKUID: sku, Left: total - want.Held - want.Sold - has.Left, Total: total - has.Total, Held: want.Held - has.Held, Sold: want.Sold - has.Sold,
			Unlanded: want.Unlanded - has.Journal - has.InFlight, Journaled: want.Journaled - has.Journal,
		}
		if c != (GateCorrection{SKUID: sku}) {
			f.lacks[sku] = c
		}
	}
	f.held = held - l.audit.Held
	return f
}

// roughlyAgrees is what can be said of the counters while purchases come and go: they add up, and gate and database tell
// the same.
func (l *look) roughlyAgrees() bool {
	for _, it := range l.after.Items {
		g := l.audit.SKUs[it.SKUID]
		if g.Left+g.Held+g.Sold != it.Total || g.Total != it.Total || it.Available != g.Left+g.Journal+g.InFlight {
			return false
		}
	}
	return true
}

// isQuiet tells whether what counters lack may be corrected by this look. Entry for entry the sets have to be equal, but for
// purchases that are on their way in the ordinary manner, which the figures contain and which move entries and counters by
// the same; and no adjustment may be between its steps, as it changes what the counters are compared with. still: nothing at
// all is on its way, but what waits for a person.
func (s *Service) isQuiet(ctx context.Context, run *reconciliation, l *look) (quiet, still bool, err error) {
	if !l.exact || !l.settled || l.odd > 0 || len(run.result.Differences) > 0 {
		return false, false, nil
	}
	if l.inFlight > 0 || len(l.unlanded) > waitingMost {
		return true, false, nil
	}
	if len(l.unlanded) == 0 {
		return true, true, nil
	}
	letters, err := s.Store.OpenDeadLetters(ctx, l.unlanded)
	return true, len(letters) == len(l.unlanded), err
}

// sameFigures counts how many looks in a row found the same.
type sameFigures struct {
	last                counterErrors
	lacking, ofTheStock int
}

func (x *sameFigures) any() bool { return x.lacking+x.ofTheStock > 0 }

// again counts one more look, and returns what was found often enough.
func (x *sameFigures) again(f counterErrors, looks int) (proven counterErrors) {
	count := func(times *int, same, none bool) bool {
		if !same || none {
			*times = 0
		}
		if !none {
			*times++
		}
		return *times >= looks
	}
	if count(&x.lacking, maps.Equal(x.last.lacks, f.lacks) && x.last.held == f.held, len(f.lacks) == 0 && f.held == 0) {
		proven.lacks, proven.held = f.lacks, f.held
	}
	if count(&x.ofTheStock, maps.Equal(x.last.stocks, f.stocks), len(f.stocks) == 0) {
		proven.stocks = f.stocks
	}
	x.last = f
	return proven
}

// correct adds to the counters what they lack, after the gate was told of all adjustments again: one that it never heard
// of would be added once more when it does. done tells that there is nothing to look at again.
func (s *Service) correct(ctx context.Context, run *reconciliation, l *look, f counterErrors) (done bool, err error) {
	for _, sku := range sortedKeys(f.stocks) {
		s.alarm(ctx, "stock "+run.activity.ID+" "+sku, "stock and ledger of a SKU do not add up", "activity_id", run.activity.ID, "sku_id", sku, "pieces", f.stocks[sku])
	}
	if len(f.lacks) == 0 && f.held == 0 {
		return true, nil
	}
	if told, err := s.resendAdjustments(ctx, run, f); err != nil || told {
		return false, err
	}
	list := make([]GateCorrection, 0, len(f.lacks))
	rep := Repair{Kind: RepairCounters}
	for _, sku := range sortedKeys(f.lacks) {
		list = append(list, f.lacks[sku])
		rep.Deltas = append(rep.Deltas, SKUDelta{sku, f.lacks[sku].Left})
	}
	if err := s.Gate.Correct(ctx, run.ref, l.audit.Mark, f.held, list); err != nil {
		s.warnUnheard(ctx, err, "counters", "activity_id", run.activity.ID, "deltas", rep.Deltas)
		return false, err
	}
	run.add(ctx, s, rep)
	return false, nil
}

// warnUnheard keeps on record what may have been repaired, as the answer was lost: the next look finds nothing there to repair
// and would not tell.
func (s *Service) warnUnheard(ctx context.Context, err error, what string, attrs ...any) {
	if errors.Is(err, ErrGateUnavailable) {
		s.Recorder.Info(ctx, "may have been repaired, the answer was lost", append([]any{"what", what}, attrs...)...)
	}
}

// makeMissing makes counters that are not there, as 0. Whoever builds a gate writes them and no script removes them, so it
// need not be looked at twice; and an adjustment that is under way would wait for them, as their correction waits for it.
func (s *Service) makeMissing(ctx context.Context, run *reconciliation, l *look) error {
	var list []GateCorrection
	rep := Repair{Kind: RepairCounters}
	for _, it := range l.after.Items {
		if _, known := l.audit.SKUs[it.SKUID]; !known || slices.Contains(l.audit.Incomplete, it.SKUID) {
			list = append(list, GateCorrection{SKUID: it.SKUID})
			rep.Deltas = append(rep.Deltas, SKUDelta{it.SKUID, 0})
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.Gate.Correct(ctx, run.ref, l.audit.Mark, 0, list); err != nil {
		s.warnUnheard(ctx, err, "counters", "activity_id", run.activity.ID, "deltas", rep.Deltas)
		return err
	}
	run.add(ctx, s, rep)
	return nil
}

// resendAdjustments sends every decided adjustment by its id, if a total is not what it should be. The gate does
// nothing about those that it knows.
func (s *Service) resendAdjustments(ctx context.Context, run *reconciliation, f counterErrors) (told bool, err error) {
	off := false
	for _, c := range f.lacks {
		off = off || c.Total != 0
	}
	if !off {
		return false, nil
	}
	before, err := s.Gate.Audit(ctx, run.ref)
	if err != nil {
		return false, err
	}
	decided, err := s.Store.DecidedAdjustments(ctx, run.activity.ID)
	if err != nil {
		return false, err
	}
	for _, a := range decided {
		if err := s.sendAdjustment(ctx, run.ref, a); err != nil {
			return false, err
		}
	}
	after, err := s.Gate.Audit(ctx, run.ref)
	if err != nil {
		return false, err
	}
	rep := Repair{Kind: RepairAdjustment}
	for _, sku := range sortedKeys(after.SKUs) {
		if d := after.SKUs[sku].Total - before.SKUs[sku].Total; d != 0 { // left went with it
			rep.Deltas = append(rep.Deltas, SKUDelta{sku, d})
		}
	}
	if len(rep.Deltas) > 0 {
		run.add(ctx, s, rep)
	}
	return len(rep.Deltas) > 0, nil
}

// tellDifferences notes what the last look found and nothing was done about.
func (l *look) tellDifferences(run *reconciliation) {
	add := func(sku string, delta int64, why string) {
		run.result.Differences = append(run.result.Differences, Difference{SKUID: sku, Delta: delta, Why: why})
	}
	f := l.figures()
	for _, sku := range sortedKeys(f.stocks) {
		add(sku, f.stocks[sku], "stock and ledger in the database do not add up; a person has to decide")
	}
	for _, sku := range sortedKeys(f.lacks) {
		add(sku, f.lacks[sku].Left, "the gate's counters do not fit its entries, and something was always on its way; ask again later")
	}
	if l.exact {
		return
	}
	for _, sku := range sortedKeys(run.rough) {
		add(sku, run.rough[sku], "gate and database differ, and purchases never stopped coming; ask again later")
	}
}
