package core

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// State is where a sale stands. A gate holds open, paused or ended; scheduled and the ends of the window follow from
// the time.
type State string

// The states of a sale.
const (
	StateScheduled State = "scheduled"
	StateOpen      State = "open"
	StatePaused    State = "paused"
	StateEnded     State = "ended"
)

// Item is one SKU of a sale.
type Item struct {
	SKUID    string
	Name     string
	Price    int64 // minor units
	Currency string
	Total    int64 // pieces
}

// Sale is a sale as buyers read it. Whether it is open is not here but in its Level.
type Sale struct {
	ActivityID   string
	Title        string
	StartsAt     time.Time
	EndsAt       time.Time
	PerUserLimit int64
	Items        []Item
}

// Level is what the gate itself says of a sale: whether it is open, and what is left.
type Level struct {
	State    State // open, paused or ended, as the merchant last set it
	StartsAt time.Time
	EndsAt   time.Time
	Left     map[string]int64 // pieces by SKU; may be below 0 after a repair
	// Unpaid has the SKUs of which somebody holds unpaid pieces, and the latest deadline known among them; zero: none is.
	Unpaid map[string]time.Time
}

// StateAt is what the sale is at a moment. What the merchant ended or paused is that, whatever the window says.
func (l Level) StateAt(now time.Time) State {
	switch {
	case l.State == StateEnded || !now.Before(l.EndsAt):
		return StateEnded
	case l.State == StatePaused:
		return StatePaused
	case now.Before(l.StartsAt):
		return StateScheduled
	}
	return StateOpen
}

// lacksAny tells whether nothing is left of one of these lines. A SKU that the gate does not list is left to the gate.
func (l Level) lacksAny(lines []contract.Line) bool {
	for _, line := range lines {
		if left, ok := l.Left[line.SKUID]; ok && left <= 0 {
			return true
		}
	}
	return false
}

// lacksAll tells whether nothing is left at all.
func (l Level) lacksAll() bool {
	for _, left := range l.Left {
		if left > 0 {
			return false
		}
	}
	return len(l.Left) > 0
}

// mayReturn is until when the pieces that these lines lack may come back, zero when one of them cannot, as reserve.lua has
// it; without lines, until when any SKU may.
func (l Level) mayReturn(now time.Time, lines []contract.Line) (back time.Time) {
	if len(lines) == 0 {
		for sku := range l.Unpaid {
			if at := l.returns(now, sku); at.After(back) {
				back = at
			}
		}
		return back
	}
	for _, line := range lines {
		if left, ok := l.Left[line.SKUID]; !ok || left > 0 {
			continue
		}
		at := l.returns(now, line.SKUID)
		if at.IsZero() {
			return at
		}
		if back.IsZero() || at.Before(back) {
			back = at
		}
	}
	return back
}

// returns is until when unpaid pieces of the SKU may come back; zero when there are none.
func (l Level) returns(now time.Time, skuID string) time.Time {
	at, unpaid := l.Unpaid[skuID]
	if unpaid && (!at.After(now) || at.After(l.EndsAt)) { // of some no deadline is known yet
		return l.EndsAt
	}
	return at
}

// Status is what a buyer is told of a purchase. It only rises.
type Status string

// The statuses of a purchase.
const (
	StatusQueued  Status = "queued"
	StatusCreated Status = "created"
	StatusPaid    Status = "paid"
	StatusClosed  Status = "closed"
	StatusFailed  Status = "failed"
)

// Terminal tells whether nothing follows s.
func (s Status) Terminal() bool { return s == StatusPaid || s == StatusClosed || s == StatusFailed }

// HasOrder tells whether the order service knows an order by now.
func (s Status) HasOrder() bool { return s == StatusCreated || s == StatusPaid || s == StatusClosed }

// Reservation is one purchase as the gate holds it.
type Reservation struct {
	ActivityID string
	OrderSN    string
	UserID     string
	Lines      []contract.Line
	Status     Status
	Reason     string    // of closed and failed
	ExpiresAt  time.Time // when the pay window ends; zero until the order is there
}

// Purchase is what is asked of the gate.
type Purchase struct {
	OrderSN string
	UserID  string
	Lines   []contract.Line
}

// Outcome is what the gate decided.
type Outcome int

// The outcomes of a purchase at the gate.
const (
	Accepted Outcome = iota + 1
	Known            // this order_sn was there before, of the same user and lines
	Conflict         // this order_sn was there before, of another user or lines
	NotStarted
	Ended
	Paused
	SoldOut
	LimitReached
	JournalFull
	UnknownSKU
)

// Verdict is the gate's answer to one purchase.
type Verdict struct {
	Outcome        Outcome
	Reservation    Reservation // of Accepted and Known
	OrderSNs       []string    // of LimitReached: what the user holds, latest last
	StartsAt       time.Time   // of NotStarted
	MayReturnUntil time.Time   // of SoldOut: until when unpaid pieces may come back; zero when there are none
}
