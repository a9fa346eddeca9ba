package core

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
)

// RepairKind is what was wrong; it labels the metric.
type RepairKind string

// The kinds of repairs.
const (
	RepairAdopted    RepairKind = "adopted"    // the gate did not know a purchase that holds pieces
	RepairSettled    RepairKind = "settled"    // the gate had not heard that a purchase went on
	RepairReleased   RepairKind = "released"   // the gate held pieces of a purchase that is over
	RepairForgotten  RepairKind = "forgotten"  // the gate did not know that a purchase is over
	RepairCorrected  RepairKind = "corrected"  // buyer or lines were others
	RepairOverruled  RepairKind = "overruled"  // the gate said more than the ledger ever did
	RepairRewritten  RepairKind = "rewritten"  // the entry could not be read
	RepairRemoved    RepairKind = "removed"    // the entry could not be read, and the ledger has none
	RepairBuyers     RepairKind = "buyers"     // a buyer's record or an index did not fit the entries
	RepairCounters   RepairKind = "counters"   // counters did not fit the entries
	RepairAdjustment RepairKind = "adjustment" // the gate had not heard of an adjustment
	RepairConfigured RepairKind = "configured" // state, window or limit
	RepairRebuilt    RepairKind = "rebuilt"    // the gate was absent
	RepairAllowance  RepairKind = "allowance"  // an allowance did not fit the ledger
)

var repairWhys = map[RepairKind]string{
	RepairAdopted:    "the ledger holds it and the gate did not know it",
	RepairSettled:    "the gate had not heard what the ledger says",
	RepairReleased:   "the gate held pieces of a purchase that is over",
	RepairForgotten:  "the gate did not know that the purchase is over",
	RepairCorrected:  "buyer or lines were others than in the ledger",
	RepairOverruled:  "the gate said more than the ledger",
	RepairRewritten:  "the gate's entry could not be read",
	RepairRemoved:    "the gate's entry could not be read and the ledger has none",
	RepairBuyers:     "a buyer's record or an index did not fit the gate's entries",
	RepairCounters:   "the gate's counters did not fit its entries",
	RepairAdjustment: "the gate had not heard of an adjustment",
	RepairConfigured: "the gate's state, window or limit were others than the activity's",
	RepairRebuilt:    "the gate was absent",
	RepairAllowance:  "the allowance did not fit the ledger",
}

// Repair is one thing that was put right. Delta is what it changed about the pieces left in the gate, by SKU.
type Repair struct {
	Kind        RepairKind
	OrderSN     string // of what was wrong with one purchase
	UserID      string // of allowances, for the record only
	Deltas      []SKUDelta
	Traceparent string // of the purchase
}

// SKUDelta is a change of the pieces left. SKUID is empty where a repair is about none.
type SKUDelta struct {
	SKUID string
	Delta int64
}

// Why tells a person what was wrong.
func (r Repair) Why() string { return repairWhys[r.Kind] }

// Difference is what a look found wrong and did not put right.
type Difference struct {
	OrderSN string
	SKUID   string
	Delta   int64 // pieces that the gate tells too few (or, negative, too many), as far as that is known
	Why     string
}

// finding is what a look says of one purchase. kind "" with no why: ledger and gate agree, or it is in flight.
type finding struct {
	kind  RepairKind
	to    GateRepair
	alarm string // what must never happen, and did
	why   string // set where nothing is repaired
}

func (f finding) agrees() bool { return f.kind == "" && f.why == "" }

// trimmedAfter is the age from which an ended row may be unknown to the gate. It forgets 24 h after the end by its own
// clock; the hour is for clocks, and for those who hear of an end late.
const trimmedAfter = GateKept - time.Hour

var stageRank = map[GateStage]int{StageQueued: 1, StageLanded: 2, StageCreated: 3, StagePaid: 4, StageClosed: 5, StageFailed: 5}

func (g *GateRecord) holds() bool {
	return g != nil && stageRank[g.Stage] >= 1 && stageRank[g.Stage] <= 4
}

// stage is what buyers are told of a row.
func (r Reservation) stage() GateStage {
	switch r.State {
	case StateReserved:
		if r.OrderCreatedAt == nil {
			return StageLanded
		}
		return StageCreated
	case StateSold:
		return StagePaid
	case StateReleased:
		if r.OrderCreatedAt != nil {
			return StageClosed
		}
	}
	return StageFailed
}

func (r Reservation) holds() bool { return r.State == StateReserved || r.State == StateSold }

// tellable: the gate takes rows of bucket 0 with a buyer and lines; others were rejected unread, and no gate knows them.
func (r Reservation) tellable() bool {
	return r.Bucket == 0 && contract.ValidUserID(r.UserID) && contract.ValidateLines(r.Lines) == nil
}

// judge compares what the gate says of a purchase with what the ledger says. row is nil when the ledger does not have it,
// g when the gate does not. The gate must have been read first:
//
// The gate hears of a row's state only after that was committed, and states only rise (a sold row that a refund released
// is behind, not ahead: see Row.refunded). So a row that is read after the
// entry is at least as far as anything the entry was ever told, whatever happens meanwhile. An entry that says more than
// such a row is wrong, whoever is under way: that needs no waiting. An entry that says less may only not have heard yet:
// whether it is wrong is a question of time, and the caller's. In either case telling it is harmless, because what is
// told was committed, and a later state comes after it and stays.
func judge(row *Reservation, g *GateRecord, now time.Time) finding {
	if row == nil {
		return judgeUnknown(g)
	}
	if !row.tellable() {
		return finding{}
	}
	to := GateRepair{OrderSN: row.OrderSN, UserID: row.UserID, Lines: row.Lines, Stage: row.stage()}
	if g != nil {
		to.Seen = g.Stored
	}
	if row.holds() {
		if to.Stage == StageCreated && row.ExpiresAt != nil {
			to.ExpiresAt = *row.ExpiresAt
		}
	} else {
		to.Reason = row.Reason
	}
	switch {
	case g == nil && row.holds():
		return finding{kind: RepairAdopted, to: to}
	case g == nil:
		if now.Sub(row.ChangedAt) >= trimmedAfter {
			return finding{}
		}
		return finding{kind: RepairForgotten, to: to}
	case g.Stage == StageBroken:
		return finding{kind: RepairRewritten, to: to, alarm: "an entry of the gate cannot be read"}
	case !row.holds() && !g.holds():
		return finding{} // what was told of the end stays told
	case row.holds() && !g.holds():
		return finding{kind: RepairOverruled, to: to, alarm: "the gate says over, the ledger holds it"}
	case stageRank[g.Stage] > stageRank[row.stage()], g.Stage == StagePaid && row.State != StateSold && !row.refunded():
		return finding{kind: RepairOverruled, to: to, alarm: "the gate says more than the ledger"}
	case !row.holds():
		if g.Stage == StageCreated { // who was told of an order is not told that there never was one
			to.Stage = StageClosed
		}
		return finding{kind: RepairReleased, to: to}
	case g.UserID != row.UserID && g.Stage == StageQueued:
		// Two purchases under one order_sn. The message of the one in the gate becomes a dead letter, which a person decides.
		return finding{alarm: "order_sn belongs to somebody else in the ledger", why: "the order_sn belongs to somebody else in the ledger"}
	case g.UserID != row.UserID || !contract.SameLines(g.Lines, row.Lines):
		return finding{kind: RepairCorrected, to: to}
	case stageRank[g.Stage] < stageRank[row.stage()]:
		return finding{kind: RepairSettled, to: to}
	case g.Stage == StageCreated && row.ExpiresAt != nil && !g.ExpiresAt.Equal(*row.ExpiresAt):
		return finding{kind: RepairSettled, to: to}
	}
	return finding{}
}

// judgeUnknown is judge of a purchase that the ledger does not have.
func judgeUnknown(g *GateRecord) finding {
	if g == nil {
		return finding{}
	}
	stage := g.Stage
	if stage == StageLanded && (!contract.ValidUserID(g.UserID) || contract.ValidateLines(g.Lines) != nil) {
		stage = StageBroken // no message could carry it into the ledger, and no repair may write it
	}
	switch stage {
	case StageQueued:
		return finding{} // in flight: journal, broker or dead letter. The sweepers' rules decide what is lost of these.
	case StageLanded:
		// Under the rules for queued ones it is journaled again, and the database decides.
		return finding{
			kind: RepairOverruled, alarm: "the gate says landed, the ledger does not have it",
			to: GateRepair{OrderSN: g.OrderSN, Seen: g.Stored, UserID: g.UserID, Lines: g.Lines, Stage: StageQueued},
		}
	case StageCreated, StagePaid:
		// There may be an order. Nothing here can tell.
		return finding{alarm: "the gate knows an order, the ledger does not have it", why: "the gate knows an order and the ledger does not have it"}
	case StageBroken:
		return finding{kind: RepairRemoved, alarm: "an entry of the gate cannot be read", to: GateRepair{OrderSN: g.OrderSN, Seen: g.Stored, Remove: true}}
	}
	return finding{}
}

// deltas is what making g that does to the pieces left.
func deltas(g *GateRecord, to GateRepair) []SKUDelta {
	by := map[string]int64{}
	if g.holds() {
		for _, l := range g.Lines {
			by[l.SKUID] += l.Qty
		}
	}
	for _, l := range to.Lines {
		by[l.SKUID] += 0
		if r := stageRank[to.Stage]; r >= 1 && r <= 4 {
			by[l.SKUID] -= l.Qty
		}
	}
	list := make([]SKUDelta, 0, len(by))
	for _, sku := range sortedKeys(by) {
		list = append(list, SKUDelta{sku, by[sku]})
	}
	return list
}

// repairEntries looks again at purchases about which a look found gate and ledger to disagree, and makes the gate say
// what the ledger says where they still do. It counts those that are left as they are: on their way, or odd.
//
// Between the two looks lies a pause. What moved meanwhile, or what the ledger changed within the grace, is on its way and
// left alone: the one whose message, call or sweep changed it tells the gate. Each entry is changed only if it still is
// as it was read here, so neither a late nor a repeated attempt nor another reconciler does anything to what went on.
func (s *Service) repairEntries(ctx context.Context, run *reconciliation, l *look) error {
	if len(l.suspects) == 0 {
		return nil
	}
	if err := wait(ctx, s.Timing.ReconcilePause); err != nil {
		return err
	}
	return chunks(l.suspects, repairChunk, func(c []suspect) error { return s.repairChunk(ctx, run, l, c) })
}

// ordinary tells whether a purchase that is on its way looks like this: the gate has not heard that it went on.
func (f finding) ordinary() bool { return f.kind == RepairSettled || f.kind == RepairReleased }

// repairChunk bounds one look again.
const repairChunk = 256

func (s *Service) repairChunk(ctx context.Context, run *reconciliation, l *look, suspects []suspect) error {
	sns := make([]string, len(suspects))
	for i, x := range suspects {
		sns[i] = x.orderSN
	}
	// The gate first, then the ledger: see judge.
	entries, err := s.Gate.Inspect(ctx, run.ref, sns)
	if err != nil {
		return err
	}
	rows, err := s.Store.Reservations(ctx, sns)
	if err != nil {
		return err
	}
	now := s.now()
	// Those who hold pieces first, so that the gate knows them before it gives any back: settleBeforeRefusing.
	var holding, over, refused []GateRepair
	var refusedRows []Reservation
	found := map[string]finding{}
	for _, x := range suspects {
		var g *GateRecord
		var row *Reservation
		if e, ok := entries[x.orderSN]; ok {
			g = &e
		}
		if r, ok := rows[x.orderSN]; ok {
			if row = &r; r.ActivityID != run.activity.ID {
				run.leave(ctx, s, finding{alarm: "order_sn belongs to another activity", why: "the order_sn belongs to another activity in the ledger"}, x.orderSN)
				continue
			}
		}
		f := judge(row, g, now)
		switch {
		case f.agrees():
			continue
		case x.moved(g, row) || row != nil && now.Sub(row.ChangedAt) < s.Timing.ReconcileGrace:
			if f.ordinary() {
				l.inFlight++
			} else {
				l.odd++
			}
			continue
		case f.kind == "":
			run.leave(ctx, s, f, x.orderSN)
			continue
		}
		found[x.orderSN] = f
		switch {
		case row != nil && row.State == StateRejected && (row.Reason == ReasonSoldOut || row.Reason == ReasonLimitReached):
			refused, refusedRows = append(refused, f.to), append(refusedRows, *row)
		case row != nil && !row.holds():
			over = append(over, f.to)
		default:
			holding = append(holding, f.to)
		}
	}
	for i, list := range [][]GateRepair{holding, over, refused} {
		if len(list) == 0 {
			continue
		}
		if i == 2 {
			if err := s.settleBeforeRefusing(ctx, run.ref, refusedRows); err != nil {
				return err
			}
		}
		done, err := s.Gate.Repair(ctx, run.ref, l.audit.Mark.Life, list)
		for _, to := range list {
			if !done[to.OrderSN] {
				s.warnUnheard(ctx, err, string(found[to.OrderSN].kind), "activity_id", run.activity.ID, "order_sn", to.OrderSN)
				l.odd++ // it went on just now, and is looked at again
				continue
			}
			f := found[to.OrderSN]
			rep := Repair{Kind: f.kind, OrderSN: to.OrderSN, Traceparent: rows[to.OrderSN].Traceparent}
			if e, ok := entries[to.OrderSN]; ok {
				rep.Deltas = deltas(&e, to)
			} else {
				rep.Deltas = deltas(nil, to)
			}
			if f.alarm != "" {
				s.Recorder.Incident(ctx, f.alarm, "activity_id", run.activity.ID, "order_sn", to.OrderSN)
			}
			run.add(ctx, s, rep)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
