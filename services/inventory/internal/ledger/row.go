// Package ledger has the rows of the ledger: how new ones are made, how the steps of orders change them, and which
// entry of the gate follows from each. It reads and writes nothing.
package ledger

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// State is the state of a row: reserved -> sold | released, or rejected from the start. A sold row is released when its
// order is refunded.
type State string

// The states of a row.
const (
	StateReserved State = "reserved"
	StateSold     State = "sold"
	StateReleased State = "released"
	StateRejected State = "rejected"
)

// Reasons of rejected and released rows.
const (
	ReasonSoldOut      = "sold_out"
	ReasonLimitReached = "limit_reached"
	ReasonExpired      = "expired"
	ReasonSystem       = "system"
	ReasonRejected     = "rejected"
	ReasonCancelled    = "cancelled"
	ReasonRefunded     = contract.ReasonRefunded
)

// RefusalReasons are the reasons of rows that are rejected as they land.
var RefusalReasons = []string{ReasonSoldOut, ReasonLimitReached}

// Row is one reservation in the ledger.
type Row struct {
	OrderSN          string
	ActivityID       string
	UserID           string
	Lines            []contract.Line
	State            State
	Reason           string
	ReservedAt       time.Time
	LandedAt         time.Time
	OrderCreatedAt   *time.Time // nil: no order is known
	ExpiresAt        *time.Time // end of the pay window, once an order is known
	ChangedAt        time.Time
	RepublishAt      *time.Time // when its deduction is due again; set exactly while reserved without a known order
	RepublishAttempt int
	Traceparent      string
}

// New returns the reserved row of a purchase that lands now.
func New(p contract.Reservation, now time.Time) Row {
	return Row{
		OrderSN: p.OrderSN, ActivityID: p.ActivityID, UserID: p.UserID, Lines: p.Lines, State: StateReserved,
		ReservedAt: SanitizeTime(p.ReservedAt, now), LandedAt: now, ChangedAt: now,
		Traceparent: sanitizeTraceparent(p.Traceparent),
	}
}

// Rejected returns a new row as one that takes no units, for a reason.
func (r Row) Rejected(reason string) Row {
	r.State, r.Reason = StateRejected, SanitizeReason(reason)
	return r
}

// Refused reports whether the ledger rejected the row for the stock or the allowance: the gate sold units that the
// ledger does not have.
func (r Row) Refused() bool {
	return r.State == StateRejected && (r.Reason == ReasonSoldOut || r.Reason == ReasonLimitReached)
}

// Refunded reports whether the row was released because its order was refunded.
func (r Row) Refunded() bool { return r.State == StateReleased && r.Reason == ReasonRefunded }

// Holds reports whether the row holds units.
func (r Row) Holds() bool { return r.State == StateReserved || r.State == StateSold }

// Buyer returns the key of the row's allowance.
func (r Row) Buyer() Buyer { return Buyer{r.ActivityID, r.UserID} }

// Units returns the number of units that lines have in all.
func Units(lines []contract.Line) (n int64) {
	for _, l := range lines {
		n += l.Qty
	}
	return n
}

// Purchasable reports whether buyer and lines are those of a purchase that can exist. No gate has an entry of another.
func Purchasable(userID string, lines []contract.Line) bool {
	return contract.ValidUserID(userID) && contract.ValidateLines(lines) == nil
}

// Invalid reports whether the row describes no purchase that can exist. A rejected row may have no lines, since those
// of a dead letter may be unknown.
func (r Row) Invalid() bool {
	if r.State == StateRejected && len(r.Lines) == 0 {
		return false
	}
	return !Purchasable(r.UserID, r.Lines)
}

// Same reports whether a message describes the purchase of this row.
func (r Row) Same(userID, activityID string, lines []contract.Line) bool {
	return r.UserID == userID && r.ActivityID == activityID && contract.SameLines(r.Lines, lines)
}

// Messages match their contract. The values that it leaves open are sanitized here, so that no value of a message can
// keep its transaction from committing for ever.

// SanitizeTime returns t as the tables keep it, or instead if t is outside of 2000 to 2200.
func SanitizeTime(t, instead time.Time) time.Time {
	if t.Year() < 2000 || t.Year() > 2200 {
		return instead
	}
	return t.UTC().Truncate(time.Millisecond)
}

// SanitizeReason returns s if gate and tables take it (1 to 32 of a-z 0-9 _ and -), and expired otherwise.
func SanitizeReason(s string) string {
	if s == "" || len(s) > 32 {
		return ReasonExpired
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return ReasonExpired
		}
	}
	return s
}

func sanitizeTraceparent(s string) string {
	if len(s) > 64 {
		return ""
	}
	return s
}

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
