package core

import (
	"cmp"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ActivityState is what merchants decided about an activity. The clock also decides whether it is open.
type ActivityState string

// The states of an activity.
const (
	ActivityDraft     ActivityState = "draft"
	ActivityPublished ActivityState = "published"
	ActivityPaused    ActivityState = "paused"
	ActivityEnded     ActivityState = "ended"
)

// Activity is one sale. Version rises with every change that concerns the gate.
type Activity struct {
	ID           string
	MerchantID   string // its owner; never changes
	Ref          string // the merchant's own reference, "" for none; unique for the merchant
	Title        string
	Description  string
	ImageURL     string // http(s) or a path of this site; "" for none
	State        ActivityState
	StartsAt     time.Time
	EndsAt       time.Time
	EndedAt      *time.Time // when a merchant ended it early
	PerUserLimit int64
	PayWithinS   int64
	ReorderLimit int64 // orders that a buyer may cancel or let expire before the allowance ends for 10 min; 0: any number
	RoomRate     int64 // places that the waiting room admits a second; 0: no waiting room
	Challenge    contract.Challenge
	Currency     string
	Version      int64
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Items        []Stock // by SKU
	Notice       *Notice // nil: none
	Seller       *Seller // its merchant's profile, nil without one; only reads for gates, modes and views have it

	Degraded      *DegradedSale // nil: the sale stops while Redis is unavailable
	Mode          contract.SaleMode
	Outage        int64      // counts the outages of Redis in which it was redisless
	ModeChangedAt *time.Time // nil: never
	// GateLacksSince is the time of the oldest change that the gate may lack; nil while the mode is gate.
	GateLacksSince *time.Time
}

// Notice is a line that a merchant writes to the buyers of a sale.
type Notice struct {
	Text string
	At   time.Time // when it was written
}

// Seller is what buyers read of the merchant of a sale.
type Seller struct {
	Name     string
	TermsURL string // https; "" for none
	Delivery string // it may have several lines; "" for none
}

// Stock is the allotment of one SKU: Available + Reserved + Sold = Total, always.
type Stock struct {
	SKUID     string
	Ref       string // of the SKU, "" for none
	Name      string
	ImageURL  string // of its product
	Archived  bool   // its product is
	ListPrice int64
	Price     int64
	Total     int64
	Available int64
	Reserved  int64
	Sold      int64
}

// Item is the stock of a SKU, nil when the activity does not sell it.
func (a *Activity) Item(skuID string) *Stock {
	for i := range a.Items {
		if a.Items[i].SKUID == skuID {
			return &a.Items[i]
		}
	}
	return nil
}

// MaxRevenue is the highest revenue that is shown, and stands for any higher one: the highest integer that is exact in a
// double.
const MaxRevenue = 1<<53 - 1

// AddRevenue adds the price of sold units to a revenue, up to MaxRevenue.
func AddRevenue(revenue, sold, price int64) int64 {
	if price > 0 && sold > (MaxRevenue-revenue)/price {
		return MaxRevenue
	}
	return revenue + sold*price
}

// ActivityTotals adds up the stock of an activity.
type ActivityTotals struct {
	Units, Left, Sold int64
	Revenue           int64 // of the sold units, in minor units, up to MaxRevenue
}

// Totals adds up the items.
func (a *Activity) Totals() (t ActivityTotals) {
	for _, it := range a.Items {
		t.Units, t.Left, t.Sold = t.Units+it.Total, t.Left+it.Available, t.Sold+it.Sold
		t.Revenue = AddRevenue(t.Revenue, it.Sold, it.Price)
	}
	return t
}

// EndedSince returns when the activity ended; ok is false before its end.
func (a *Activity) EndedSince(now time.Time) (since time.Time, ok bool) {
	since = a.EndsAt
	if a.State == ActivityEnded && a.EndedAt != nil && a.EndedAt.Before(since) {
		since = *a.EndedAt
	}
	return since, !since.After(now)
}

// GateDue reports whether the gate of this activity has to exist: from its publication until a day after its end, and
// as long as anything is reserved. At other times an absent gate is no loss, and effects on it are void.
func (a *Activity) GateDue(now time.Time) bool {
	if a.State == ActivityDraft {
		return false
	}
	for _, it := range a.Items {
		if it.Reserved > 0 {
			return true
		}
	}
	since, ended := a.EndedSince(now)
	return !ended || now.Before(since.Add(ledger.GateKept))
}

// Phases are the states that buyers and merchants see.
var Phases = []string{"draft", "scheduled", "open", "paused", "ended"}

// Phase returns the state that buyers and merchants see, one of Phases.
func (a *Activity) Phase(now time.Time) string {
	if a.State == ActivityDraft {
		return "draft"
	}
	if _, ended := a.EndedSince(now); ended || a.State == ActivityEnded {
		return "ended"
	}
	switch {
	case a.State == ActivityPaused:
		return "paused"
	case now.Before(a.StartsAt):
		return "scheduled"
	}
	return "open"
}

// GateChallenge returns the challenge as gates have it.
func (a *Activity) GateChallenge() contract.Challenge {
	if !a.Challenge.On() {
		return contract.Challenge{}
	}
	return a.Challenge
}

// GateConfig returns what the gate enforces of the activity.
func (a *Activity) GateConfig() GateConfig {
	return GateConfig{
		State: a.State, StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: a.PerUserLimit,
		ReorderLimit: a.ReorderLimit, RoomRate: a.RoomRate, Challenge: a.GateChallenge(),
		Version: a.Version,
	}
}

// DegradedSale bounds the sale of an activity while Redis is unavailable.
type DegradedSale struct {
	PerSecond int64 // purchases, over all processes
	Drop      int64 // per cent of the purchase requests that seckill refuses at random
	Reserve   int64 // per cent of the stock that is kept for purchases accepted before, beyond those that are known
}

// RedislessSale holds the figures of a sale without Redis.
type RedislessSale struct {
	SeenAt    time.Time        // when a process last began to read the gate; zero: never
	FiguresAt time.Time        // the time of Redis then
	NotedAt   time.Time        // when the reading had ended
	Unlanded  map[string]int64 // by SKU, units in the gate that were not known to be in the ledger
	// HeldBack has, by SKU, the units that are kept for purchases that the gate had accepted before FiguresAt. Reserve has
	// those for purchases that it has accepted since.
	HeldBack, Reserve map[string]int64
	// SoldCount purchases were sold in the second that begins at SoldSecond (Unix time).
	SoldSecond, SoldCount int64
}

// Readiness states whether a sale would go on if its gate were lost now, or why not. Merchants read these words.
type Readiness string

// Readiness of sales.
const (
	ReadinessReady     Readiness = "ready"
	ReadinessOff       Readiness = "off"       // it has no degraded sale
	ReadinessInactive  Readiness = "inactive"  // it is a draft, or has ended
	ReadinessUnread    Readiness = "unread"    // its gate was never read
	ReadinessOutdated  Readiness = "outdated"  // its gate was last read too long ago
	ReadinessImporting Readiness = "importing" // an import after a restore is not complete
)

// Redisless reports whether purchases are decided by the ledger alone.
func (a *Activity) Redisless() bool { return a.Mode == contract.ModeRedisless }

// UsesGate reports whether seckill may use the gate.
func (a *Activity) UsesGate() bool { return a.Mode == "" || a.Mode == contract.ModeGate }

// WithoutGate reports whether a reading of the gate failed with err because the sale goes on without it.
func (a *Activity) WithoutGate(err error) bool {
	return !a.UsesGate() && (errors.Is(err, ErrGateUnavailable) || errors.Is(err, ErrNoGate))
}

// CompareIDs compares ids as the numbers they are.
func CompareIDs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// Milliseconds returns t as the tables keep it: UTC, in milliseconds.
func Milliseconds(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Adjustment adds units to a live stock or withdraws them.
type Adjustment struct {
	ID         string
	ActivityID string
	SKUID      string
	Delta      int64
	Reason     string
	State      string // intent, applied or refused
	Decision   string // "", taken or refused: whether the stock in the database contains it
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time

	ResumeAt      *time.Time // when the sweep tries it again; nil before the first failed attempt
	ResumeAttempt int        // failed attempts of the sweep
}

// States and decisions of adjustments.
const (
	AdjustmentIntent  = "intent"
	AdjustmentApplied = "applied"
	AdjustmentRefused = "refused"
	DecisionTaken     = "taken"
	DecisionRefused   = "refused"
)
