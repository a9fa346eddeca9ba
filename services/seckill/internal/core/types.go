package core

import (
	"time"

	"flashsale.internal/pkg/contract"
)

// State is the state of a sale. A gate stores open, paused or ended; scheduled, and ended at the end of the window,
// follow from the time.
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
	SKUID     string
	Name      string
	ImageURL  string // "" for none
	Price     int64  // minor units
	ListPrice int64  // minor units; 0 if unknown
	Currency  string
	Total     int64 // units
}

// Sale is the description of a sale for buyers. Whether it is open is in its GateState.
type Sale struct {
	ActivityID   string
	Title        string
	Description  string
	ImageURL     string // "" for none
	StartsAt     time.Time
	EndsAt       time.Time
	PerUserLimit int64
	PayWithin    time.Duration // 0 if unknown
	Degraded     bool          // the sale may go on without Redis
	Items        []Item
	Seller       *Seller // nil if the merchant has no profile
	Notice       *Notice // nil for none
}

// Seller is what buyers read of the merchant of a sale.
type Seller struct {
	Name     string
	TermsURL string // https; "" for none
	Delivery string // "" for none
}

// Notice is a line of the merchant to the buyers of a sale.
type Notice struct {
	Text string
	At   time.Time // when it was written
}

// GateState is the part of a sale that its gate stores: state, window, units left and deadlines of unpaid units.
type GateState struct {
	State     State // open, paused or ended, as the merchant last set it
	StartsAt  time.Time
	EndsAt    time.Time
	RoomRate  int64 // places that the waiting room admits a second; 0: the activity has no room
	Challenge contract.Challenge
	Left      map[string]int64 // units by SKU; may be below 0 after a repair
	// Unpaid holds each SKU that has reserved, unpaid units, with the latest known pay deadline of these units. A zero
	// time means that no deadline is known.
	Unpaid map[string]time.Time
}

// Times before the start of a sale. pkg/stockgate/lua/room.lua opens rooms by the same value.
const (
	roomOpens      = 10 * time.Minute
	challengesOpen = 5 * time.Minute
)

// RoomOpensAt returns when the waiting room of the activity opens.
func (g GateState) RoomOpensAt() time.Time { return g.StartsAt.Add(-roomOpens) }

// ChallengesOpenAt returns when the challenges of the activity open. With a waiting room they open at admission, which
// is not before the start.
func (g GateState) ChallengesOpenAt() time.Time {
	if g.RoomRate > 0 {
		return g.StartsAt
	}
	return g.StartsAt.Add(-challengesOpen)
}

// StateAt returns the state of the sale at a moment. A sale that the merchant ended or paused has that state whatever
// its window.
func (g GateState) StateAt(now time.Time) State {
	switch {
	case g.State == StateEnded || !now.Before(g.EndsAt):
		return StateEnded
	case g.State == StatePaused:
		return StatePaused
	case now.Before(g.StartsAt):
		return StateScheduled
	}
	return StateOpen
}

// anySoldOut reports whether the SKU of one of these lines has no units left. An unlisted SKU does not count: the gate
// decides about it.
func (g GateState) anySoldOut(lines []contract.Line) bool {
	for _, line := range lines {
		if left, ok := g.Left[line.SKUID]; ok && left <= 0 {
			return true
		}
	}
	return false
}

// allSoldOut reports whether no SKU has units left.
func (g GateState) allSoldOut() bool {
	for _, left := range g.Left {
		if left > 0 {
			return false
		}
	}
	return len(g.Left) > 0
}

// mayReturnUntil returns the time until which the units that these lines lack may be released, by the rule of
// pkg/stockgate/lua/reserve.lua. It is zero if the units of one line cannot be released. Without lines it is the latest
// time of any SKU.
func (g GateState) mayReturnUntil(now time.Time, lines []contract.Line) (until time.Time) {
	if len(lines) == 0 {
		for sku := range g.Unpaid {
			if at := g.unpaidUntil(now, sku); at.After(until) {
				until = at
			}
		}
		return until
	}
	for _, line := range lines {
		if left, ok := g.Left[line.SKUID]; !ok || left > 0 {
			continue
		}
		at := g.unpaidUntil(now, line.SKUID)
		if at.IsZero() {
			return at
		}
		if until.IsZero() || at.Before(until) {
			until = at
		}
	}
	return until
}

// unpaidUntil returns the time until which unpaid units of the SKU may be released. It is zero if there are none.
func (g GateState) unpaidUntil(now time.Time, skuID string) time.Time {
	at, unpaid := g.Unpaid[skuID]
	if unpaid && (!at.After(now) || at.After(g.EndsAt)) { // a deadline is not known, or is after the end
		return g.EndsAt
	}
	return at
}

// Status is the status of a purchase as its buyer sees it. It moves forward only, except by a repair. After paid, only
// a refund changes it, to closed. A stream has ended by then and does not report the refund.
type Status string

// The statuses of a purchase.
const (
	StatusQueued  Status = "queued"
	StatusCreated Status = "created"
	StatusPaid    Status = "paid"
	StatusClosed  Status = "closed"
	StatusFailed  Status = "failed"
)

// Terminal reports whether s ends the stream of a purchase.
func (s Status) Terminal() bool { return s == StatusPaid || s == StatusClosed || s == StatusFailed }

// HasOrder reports whether the order service has an order of the purchase.
func (s Status) HasOrder() bool { return s == StatusCreated || s == StatusPaid || s == StatusClosed }

// rank orders the statuses. A stream never sends a lower one after a higher one.
func (s Status) rank() int {
	switch s {
	case StatusQueued:
		return 1
	case StatusCreated:
		return 2
	case StatusPaid, StatusClosed, StatusFailed:
		return 3
	}
	return 0
}

// Reservation is one purchase as the gate holds it.
type Reservation struct {
	ActivityID string
	OrderSN    string
	UserID     string
	Lines      []contract.Line
	Status     Status
	Reason     string    // of closed and failed
	ReservedAt time.Time // zero if the gate was rebuilt since
	ExpiresAt  time.Time // end of the pay window; zero until the order exists
}

// Purchase is the request for units that the gate decides.
type Purchase struct {
	OrderSN string
	UserID  string
	Lines   []contract.Line
	// IssuedAt is when its path was issued, by Redis time. The gate refuses it if the user has reserved since.
	IssuedAt time.Time
}

// Allowance is whether a user may reserve units at all.
type Allowance struct {
	Used     bool
	OrderSNs []string // if Used: the user's purchases that hold units, latest last
	// BarredUntil is set if the allowance is over for a while, because too many orders were cancelled or expired.
	BarredUntil time.Time
}

// UserPurchases is what the gate has of one user.
type UserPurchases struct {
	OrderSNs []string // latest last
	// CancellationsLeft is how many orders may still be cancelled or expire before the allowance is over for a while; nil
	// if any number may, or the gate was not read.
	CancellationsLeft *int64
	BarredUntil       time.Time // as in Allowance
}

// OwnPage is a page of a user's purchases in an activity, with what is left of the allowance.
type OwnPage struct {
	Items             []Reservation
	Next              string // cursor of the next page, empty at the end
	CancellationsLeft *int64
	BarredUntil       time.Time
}

// Acceptance is a purchase that the gate has accepted, as its journal has it.
type Acceptance struct {
	Purchase
	ReservedAt  time.Time
	Traceparent string
}

// Outcome is the gate's decision about a purchase.
type Outcome int

// The outcomes of a purchase at the gate.
const (
	Accepted Outcome = iota + 1
	Known            // the gate has this order_sn already, with the same user and lines
	Conflict         // the gate has this order_sn already, with another user or other lines
	NotStarted
	Ended
	Paused
	SoldOut
	LimitReached
	PathVoid // the user has reserved since the path was issued
	JournalFull
	UnknownSKU
)

// Verdict is an outcome with its details.
type Verdict struct {
	Outcome        Outcome
	Reservation    Reservation // of Accepted and Known
	OrderSNs       []string    // of LimitReached: the user's purchases, latest last
	BarredUntil    time.Time   // of LimitReached: as in Allowance
	StartsAt       time.Time   // of NotStarted
	MayReturnUntil time.Time   // of SoldOut: until when unpaid units may be released; zero if there are none
}
