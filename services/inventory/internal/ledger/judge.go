package ledger

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// StoredEntry is an entry of the gate, as it is compared with the ledger.
type StoredEntry struct {
	Entry
	IndexMismatch bool   // the record of its buyer or an index does not match it
	Stored        string // the entry as it is stored
}

// Holds reports whether the gate has the entry and it holds units.
func (e *StoredEntry) Holds() bool { return e != nil && e.Stage.Holds() }

// EntryRepair rewrites an entry as the ledger has it, if it still is as it was read.
type EntryRepair struct {
	Entry
	Read   string // the stored entry; "": the gate had none
	Remove bool   // only OrderSN and Read are set
}

// RepairKind is what was wrong. It labels the metric of repairs.
type RepairKind string

// The kinds of repairs of entries.
const (
	RepairAdopted   RepairKind = "adopted"   // the gate had no entry of a purchase that holds units
	RepairSettled   RepairKind = "settled"   // the gate's entry was behind the ledger
	RepairReleased  RepairKind = "released"  // the gate held units of a purchase that ended
	RepairForgotten RepairKind = "forgotten" // the gate had no entry of a purchase that ended less than a day ago
	RepairCorrected RepairKind = "corrected" // buyer or lines differed
	RepairOverruled RepairKind = "overruled" // the gate's entry was ahead of the ledger
	RepairRewritten RepairKind = "rewritten" // the entry could not be read
	RepairRemoved   RepairKind = "removed"   // the entry could not be read, and the ledger has none
)

// Finding is the result of comparing one purchase in gate and ledger. The zero Finding: they agree.
type Finding struct {
	Kind     RepairKind
	To       EntryRepair
	Incident string // the incident, if it must never happen
	Why      string // set if it cannot be repaired
	Ahead    bool   // both hold units, and buyers read more than the ledger has
}

// Agrees reports whether gate and ledger agree.
func (f Finding) Agrees() bool { return f.Kind == "" && f.Why == "" }

// Ordinary reports whether a purchase in flight may have this finding: its entry is behind its row.
func (f Finding) Ordinary() bool { return f.Kind == RepairSettled || f.Kind == RepairReleased }

// LostRow is the Why of an entry that proves that the database has lost its row.
const LostRow = "the gate entry has landed but the ledger has no row: the database has lost it"

// GateKept is how long a gate is due after the end of its activity. It stays due as long as units are reserved. A gate
// also keeps the entries of ended purchases for this time.
const GateKept = 24 * time.Hour

// TrimmedAfter is the age from which the gate may have no entry of an ended row. It trims entries 24 h after their
// end by its own clock. The hour allows for clocks that differ, and for ends that reached the gate late.
const TrimmedAfter = GateKept - time.Hour

// Judge compares the entry of a purchase with its row. row is nil if the ledger has none, e if the gate has none. The
// entry must have been read first:
//
// A state reaches the gate only after its commit, and states only rise. (If a refund released a sold row, its paid
// entry is behind, not ahead: see Row.Refunded.) So a row that is read after the entry is at least as far as
// anything that ever reached the entry, whatever happens meanwhile. An entry that is ahead of such a row is wrong,
// even with messages in flight: no waiting is needed. An entry that is behind may only wait for its sync. The caller
// decides by the age of the change whether it is wrong. In either case a repair is harmless: it writes a committed
// state, and a later state is written after it and stays.
func Judge(row *Row, e *StoredEntry, now time.Time) Finding {
	switch {
	case row == nil && e == nil:
		return Finding{}
	case row == nil:
		return judgeUnknown(e)
	case !Purchasable(row.UserID, row.Lines):
		return Finding{}
	case e == nil:
		return judgeMissing(row, now)
	case e.Stage == StageBroken:
		return Finding{Kind: RepairRewritten, To: repairTo(row, e), Incident: "gate entry cannot be read"}
	case !row.Holds():
		return judgeEnded(row, e)
	}
	return judgeHolding(row, e)
}

// repairTo returns the repair that writes the state of the row into the entry.
func repairTo(row *Row, e *StoredEntry) EntryRepair {
	to := EntryRepair{Entry: row.Entry()}
	if e != nil {
		to.Read = e.Stored
	}
	return to
}

// judgeMissing is Judge of a purchase that the gate does not have.
func judgeMissing(row *Row, now time.Time) Finding {
	switch {
	case row.Holds():
		return Finding{Kind: RepairAdopted, To: repairTo(row, nil)}
	case now.Sub(row.ChangedAt) >= TrimmedAfter:
		return Finding{}
	}
	return Finding{Kind: RepairForgotten, To: repairTo(row, nil)}
}

// aheadOf reports whether the entry is ahead of the row.
func (e *StoredEntry) aheadOf(row *Row) bool {
	return e.Stage.Rank() > StageOf(*row).Rank() ||
		e.Stage == StagePaid && row.State != StateSold && !row.Refunded()
}

// judgeEnded is Judge of a row that holds nothing.
func judgeEnded(row *Row, e *StoredEntry) Finding {
	to := repairTo(row, e)
	switch {
	case !e.Holds():
		return Finding{} // the reason that buyers saw first stays
	case e.aheadOf(row):
		return Finding{Kind: RepairOverruled, To: to, Incident: "gate entry is ahead of the ledger"}
	case e.Stage == StageCreated: // its buyer saw an order: closed, not failed
		to.Stage = StageClosed
	}
	return Finding{Kind: RepairReleased, To: to}
}

// judgeHolding is Judge of a row that holds units.
func judgeHolding(row *Row, e *StoredEntry) Finding {
	to := repairTo(row, e)
	switch {
	case !e.Holds():
		return Finding{Kind: RepairOverruled, To: to, Incident: "gate entry is terminal but the ledger row holds units"}
	case e.aheadOf(row):
		return Finding{Kind: RepairOverruled, To: to, Incident: "gate entry is ahead of the ledger", Ahead: true}
	case e.UserID != row.UserID && e.Stage == StageQueued:
		// Two purchases under one order_sn. The message of the one in the gate becomes a dead letter, which an
		// operator decides.
		return Finding{
			Incident: "order_sn belongs to another buyer in the ledger",
			Why:      "the order_sn belongs to another buyer in the ledger",
		}
	case e.UserID != row.UserID || !contract.SameLines(e.Lines, row.Lines):
		return Finding{Kind: RepairCorrected, To: to}
	case e.Stage.Rank() < StageOf(*row).Rank():
		return Finding{Kind: RepairSettled, To: to}
	case e.Stage == StageCreated && row.ExpiresAt != nil && !e.ExpiresAt.Equal(*row.ExpiresAt):
		return Finding{Kind: RepairSettled, To: to}
	}
	return Finding{}
}

// judgeUnknown is Judge of a purchase that the ledger does not have.
func judgeUnknown(e *StoredEntry) Finding {
	stage := e.Stage
	if stage == StageLanded && !Purchasable(e.UserID, e.Lines) {
		stage = StageBroken // no message could carry it into the ledger, and no repair may write it
	}
	switch stage {
	case StageQueued:
		// in flight: in the journal, the broker or a dead letter. sweep.Journal finds those that are lost.
		return Finding{}
	case StageLanded, StageCreated, StagePaid:
		// The database has lost the row, and perhaps others: see provesLoss.
		return Finding{Incident: "gate entry has landed but the ledger has no row", Why: LostRow}
	case StageBroken:
		return Finding{
			Kind: RepairRemoved, Incident: "gate entry cannot be read",
			To: EntryRepair{Entry: Entry{OrderSN: e.OrderSN}, Read: e.Stored, Remove: true},
		}
	}
	return Finding{}
}
