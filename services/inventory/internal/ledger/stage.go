package ledger

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// Stage is the state of a purchase in the gate.
type Stage string

// The stages. Buyers see landed as queued. A broken entry cannot be read.
const (
	StageQueued  Stage = "queued"
	StageLanded  Stage = "landed"
	StageCreated Stage = "created"
	StagePaid    Stage = "paid"
	StageClosed  Stage = "closed"
	StageFailed  Stage = "failed"
	StageBroken  Stage = "broken"
	StageDeleted Stage = "deleted" // returned by the collection of changes only
)

// EndedRank is the rank of the stages that hold nothing.
const EndedRank = 5

var ranks = map[Stage]int{
	StageQueued: 1, StageLanded: 2, StageCreated: 3, StagePaid: 4, StageClosed: EndedRank, StageFailed: EndedRank,
}

// Rank orders the stages: a purchase only rises. It is 0 for an entry that cannot be read.
func (s Stage) Rank() int { return ranks[s] }

// Holds reports whether an entry of this stage holds units.
func (s Stage) Holds() bool { return s.Rank() >= 1 && s.Rank() < EndedRank }

// Ended reports whether a purchase of this stage has ended.
func (s Stage) Ended() bool { return s.Rank() == EndedRank }

// StageOf returns the stage that the entry of a row should have.
func StageOf(r Row) Stage {
	switch {
	case r.State == StateSold:
		return StagePaid
	case r.State == StateReserved && r.OrderCreatedAt != nil:
		return StageCreated
	case r.State == StateReserved:
		return StageLanded
	case r.State == StateReleased && r.OrderCreatedAt != nil:
		return StageClosed
	}
	return StageFailed // rejected, or released without an order
}

// Entry is a purchase as the gate has it, or should have it.
type Entry struct {
	OrderSN, UserID string
	Lines           []contract.Line
	Stage           Stage
	Reason          string    // of an ended one
	ExpiresAt       time.Time // of created
}

// Entry returns the entry that the row should have.
func (r Row) Entry() Entry {
	e := Entry{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Stage: StageOf(r)}
	if e.Stage.Ended() {
		e.Reason = r.Reason
	}
	if e.Stage == StageCreated && r.ExpiresAt != nil {
		e.ExpiresAt = *r.ExpiresAt
	}
	return e
}
