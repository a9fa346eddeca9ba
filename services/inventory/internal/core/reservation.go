package core

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// ReservationState is the state of a reservation in the ledger: reserved -> sold | released, or rejected from the
// start. A sold one is released when its order is refunded.
type ReservationState string

// The states of a reservation.
const (
	StateReserved ReservationState = "reserved"
	StateSold     ReservationState = "sold"
	StateReleased ReservationState = "released"
	StateRejected ReservationState = "rejected"
)

// Reasons of rejected and released reservations.
const (
	ReasonSoldOut      = "sold_out"
	ReasonLimitReached = "limit_reached"
	ReasonExpired      = "expired"
	ReasonSystem       = "system"
	ReasonRejected     = "rejected"
	ReasonCancelled    = "cancelled"
	ReasonRefunded     = contract.ReasonRefunded
)

// Reservation is one row of the ledger.
type Reservation struct {
	OrderSN          string
	ActivityID       string
	UserID           string
	Lines            []contract.Line
	State            ReservationState
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

// ReservationFilter selects reservations of an activity. The zero value selects all.
type ReservationFilter struct {
	UserID  string
	OrderSN string
	// State is a state of a reservation, or that of its order according to the ledger: pending (reserved, and the order
	// exists), paid (sold), closed or refunded (released, by its reason).
	State string
}

// FilterStates are the values of ReservationFilter.State besides "".
var FilterStates = []string{"pending", "paid", "closed", "refunded", "reserved", "sold", "released", "rejected"}

// ReservationCounts are the numbers of an activity's reservations, by state.
type ReservationCounts struct{ Reserved, Sold, Released, Rejected int64 }

// All returns the number of reservations in any state.
func (n ReservationCounts) All() int64 { return n.Reserved + n.Sold + n.Released + n.Rejected }

// ReservationPlace is the position of a reservation in the order of last changes.
type ReservationPlace struct {
	ChangedAt time.Time
	OrderSN   string
}

// Refunded reports whether the row was released because its order was refunded.
func (r Reservation) Refunded() bool { return r.State == StateReleased && r.Reason == ReasonRefunded }

// Holds reports whether the row holds units.
func (r Reservation) Holds() bool { return r.State == StateReserved || r.State == StateSold }

func (r Reservation) units() int64 { return units(r.Lines) }

func units(lines []contract.Line) int64 {
	var n int64
	for _, l := range lines {
		n += l.Qty
	}
	return n
}

// invalid reports whether the row describes no purchase that can exist. A rejected row may have no lines, since those of
// a dead letter may be unknown.
func (r Reservation) invalid() bool {
	if r.State == StateRejected && len(r.Lines) == 0 {
		return false
	}
	return !contract.ValidUserID(r.UserID) || contract.ValidateLines(r.Lines) != nil
}

// same reports whether a message describes the purchase of this row.
func (r Reservation) same(userID, activityID string, lines []contract.Line) bool {
	return r.UserID == userID && r.ActivityID == activityID && contract.SameLines(r.Lines, lines)
}

// Buyer is a user within an activity, the key of an allowance.
type Buyer struct{ ActivityID, UserID string }

// Shelf is a SKU within an activity, the key of a stock row.
type Shelf struct{ ActivityID, SKUID string }

// StockDelta is by how much a transaction changes a stock row. Total changes by the sum of the three.
type StockDelta struct{ Available, Reserved, Sold int64 }

// Moves are the writes of one ledger transaction. They keep two invariants: available + reserved + sold = total, and
// a user's allowance = the units of the user's reserved and sold rows.
type Moves struct {
	Insert      []Reservation
	Unread      bool // Insert was decided without reading its order_sns: one that exists is ErrKnown
	Update      []ReservationUpdate
	Allowances  map[Buyer]int64
	Stocks      map[Shelf]StockDelta
	DeadLetters []contract.DeadLetter
}

// ReservationUpdate rewrites the mutable columns of a row, if it still is in the state From.
type ReservationUpdate struct {
	From ReservationState
	To   Reservation
}

func newMoves() *Moves {
	return &Moves{Allowances: map[Buyer]int64{}, Stocks: map[Shelf]StockDelta{}}
}

func (m *Moves) reserve(r Reservation) {
	m.Allowances[Buyer{r.ActivityID, r.UserID}] += r.units()
	for _, l := range r.Lines {
		m.shift(r.ActivityID, l.SKUID, StockDelta{Available: -l.Qty, Reserved: l.Qty})
	}
}

func (m *Moves) sell(r Reservation) {
	for _, l := range r.Lines {
		m.shift(r.ActivityID, l.SKUID, StockDelta{Reserved: -l.Qty, Sold: l.Qty})
	}
}

// release returns the units of a reserved or sold row to the stock and to the allowance.
func (m *Moves) release(r Reservation) {
	m.Allowances[Buyer{r.ActivityID, r.UserID}] -= r.units()
	for _, l := range r.Lines {
		by := StockDelta{Available: l.Qty, Reserved: -l.Qty}
		if r.State == StateSold {
			by = StockDelta{Available: l.Qty, Sold: -l.Qty}
		}
		m.shift(r.ActivityID, l.SKUID, by)
	}
}

func (m *Moves) shift(activityID, skuID string, by StockDelta) {
	k := Shelf{activityID, skuID}
	d := m.Stocks[k]
	m.Stocks[k] = StockDelta{d.Available + by.Available, d.Reserved + by.Reserved, d.Sold + by.Sold}
}
