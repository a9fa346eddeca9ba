package ledger

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// Buyer is a user within an activity, the key of an allowance.
type Buyer struct{ ActivityID, UserID string }

// Shelf is a SKU within an activity, the key of a stock row.
type Shelf struct{ ActivityID, SKUID string }

// StockDelta is by how much a transaction changes a stock row. Total changes by the sum of the three.
type StockDelta struct{ Available, Reserved, Sold int64 }

// Moves are the writes of one ledger transaction. They keep two invariants: available + reserved + sold = total, and
// a user's allowance = the units of the user's reserved and sold rows.
type Moves struct {
	Insert      []Row
	Unread      bool // Insert was decided without reading its order_sns
	Update      []Update
	Allowances  map[Buyer]int64
	Stocks      map[Shelf]StockDelta
	DeadLetters []contract.DeadLetter
}

// Update rewrites the mutable columns of a row, if it still is in the state From.
type Update struct {
	From State
	To   Row
}

// NewMoves returns moves that change nothing.
func NewMoves() *Moves {
	return &Moves{Allowances: map[Buyer]int64{}, Stocks: map[Shelf]StockDelta{}}
}

// Place adds a new row. It takes units if its state holds some.
func (m *Moves) Place(r Row) {
	m.Insert = append(m.Insert, r)
	if r.Holds() {
		m.Allowances[r.Buyer()] += Units(r.Lines)
		m.shift(r, 1)
	}
}

// Step is a step of an order, from an event or from the response of the order service.
type Step struct {
	Order     contract.OrderEventType
	At        time.Time
	ExpiresAt *time.Time
	Reason    string // of closed
	Tombstone bool   // closed: the order service has no such order and never creates it
	// Present means that the order is in this state now. It is not an event, which an order may have left behind.
	Present bool
}

// Apply returns the row after a step, and moves the units that the step moves. Steps come in any order and any number
// of times. Rows only rise, so each step either moves its row or finds it moved. A late paid does not move a row that
// holds no units, and a late closed does not move a sold one. If an order is closed now, a sold row is released as
// refunded: the order service was restored, and only this reason ends a paid entry.
func (m *Moves) Apply(r Row, s Step, now time.Time) Row {
	if r.State == StateReserved && r.OrderCreatedAt == nil && !s.Tombstone {
		at := SanitizeTime(s.At, now)
		r.OrderCreatedAt = &at
	}
	if r.State == StateReserved && r.ExpiresAt == nil && s.ExpiresAt != nil {
		if at := SanitizeTime(*s.ExpiresAt, time.Time{}); !at.IsZero() {
			r.ExpiresAt = &at
		}
	}
	switch {
	case s.Order == contract.OrderPaid && r.State == StateReserved:
		m.shift(r, -1)
		r.State = StateSold
		m.shift(r, 1)
	case s.Order == contract.OrderClosed && r.State == StateReserved:
		r = m.release(r, SanitizeReason(s.Reason))
	case s.Order == contract.OrderClosed && r.State == StateSold && s.Present,
		s.Order == contract.OrderRefunded && r.Holds():
		r = m.release(r, ReasonRefunded)
	}
	if r.State != StateReserved || r.OrderCreatedAt != nil {
		r.RepublishAt = nil
	}
	return r
}

// release returns the row as released. Its units return to the stock and to the allowance.
func (m *Moves) release(r Row, reason string) Row {
	m.Allowances[r.Buyer()] -= Units(r.Lines)
	m.shift(r, -1)
	r.State, r.Reason = StateReleased, reason
	return r
}

// shift moves the units of a row from the stock (1) to where its state has them, or back (-1).
func (m *Moves) shift(r Row, sign int64) {
	for _, l := range r.Lines {
		k := Shelf{r.ActivityID, l.SKUID}
		d := m.Stocks[k]
		d.Available -= sign * l.Qty
		if r.State == StateSold {
			d.Sold += sign * l.Qty
		} else {
			d.Reserved += sign * l.Qty
		}
		m.Stocks[k] = d
	}
}

// Rewrite adds the update of a row that steps have changed, and returns it with the time of the change. It adds none if
// they changed nothing. The time of a row rises with each change, also if the clock went back: of two states of a
// purchase in the feed the later one counts.
func (m *Moves) Rewrite(before, r Row, now time.Time) (after Row, changed bool) {
	if before.State == r.State && (before.OrderCreatedAt == nil) == (r.OrderCreatedAt == nil) &&
		(before.ExpiresAt == nil) == (r.ExpiresAt == nil) && (before.RepublishAt == nil) == (r.RepublishAt == nil) {
		return r, false
	}
	r.ChangedAt = now
	if !now.After(before.ChangedAt) {
		r.ChangedAt = before.ChangedAt.Add(time.Millisecond)
	}
	m.Update = append(m.Update, Update{From: before.State, To: r})
	return r, true
}
