package contract

import (
	"fmt"
	"time"
)

// Routes of inventory's internal listener for sales without Redis. Requests and responses are the types below.
const (
	ModesPath   = "/internal/v1/modes"                // GET, with LostParam for each gate that the caller cannot reach
	ReservePath = "/internal/v1/reservations:reserve" // POST, idempotent by order_sn
	LookupPath  = "/internal/v1/reservations:lookup"  // POST
	LeasePath   = "/internal/v1/workers:lease"        // POST
)

// LostParam is a query parameter of ModesPath: an activity id, a colon, and for how many ms its gate did not respond to
// the caller.
const LostParam = "lost"

// SaleMode is the mode of a sale: which component decides the purchases of an activity.
type SaleMode string

// The modes. A sale is returning while inventory writes into the gate what it lacks; nothing is sold then.
const (
	ModeGate      SaleMode = "gate"
	ModeRedisless SaleMode = "direct"
	ModeReturning SaleMode = "returning"
)

// Modes lists the activities that have a degraded sale, and those whose mode is not gate.
type Modes struct {
	Now        time.Time      `json:"now"` // by the clock of inventory's database
	Activities []ActivityMode `json:"activities"`
}

// ActivityMode is the mode of an activity. Sale is nil while the mode is gate.
type ActivityMode struct {
	ActivityID string         `json:"activity_id"`
	Mode       SaleMode       `json:"mode"`
	Outage     int64          `json:"outage"`     // counts the outages of Redis in which the sale was redisless
	PerSecond  int64          `json:"per_second"` // purchases; 0: none are sold while the sale is redisless
	Drop       int64          `json:"drop"`       // per cent of the purchase requests
	Sale       *RedislessSale `json:"sale,omitempty"`
}

// RedislessSale is a sale as buyers see it, by the tables.
type RedislessSale struct {
	Title        string    `json:"title"`
	Description  string    `json:"description"`
	ImageURL     string    `json:"image_url"`
	State        string    `json:"state"` // open, paused or ended, as the merchant last set it
	StartsAt     time.Time `json:"starts_at"`
	EndsAt       time.Time `json:"ends_at"`
	PerUserLimit int64     `json:"per_user_limit"`
	PayWithinS   int64     `json:"pay_within_s"`
	Challenge    string    `json:"captcha,omitempty"` // as Challenge.String returns it
	RoomRate     int64     `json:"room_rate,omitempty"`
	// Rules names the rules of admission that the sale has beyond its state and window. A process without one of
	// them admits no buyer.
	Rules  []AdmissionRule  `json:"rules,omitempty"`
	Items  []RedislessItem  `json:"items"`
	Seller *RedislessSeller `json:"seller,omitempty"`
	Notice *RedislessNotice `json:"notice,omitempty"`
}

// RedislessSeller is what buyers read of the merchant of a RedislessSale.
type RedislessSeller struct {
	Name     string `json:"name"`
	TermsURL string `json:"terms_url"` // https; "" for none
	Delivery string `json:"delivery"`
}

// RedislessNotice is a line of the merchant to the buyers of a RedislessSale.
type RedislessNotice struct {
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// AdmissionRule is a rule by which a buyer may take a path, or not.
type AdmissionRule string

// The rules. Limits of orders are no such rules: the ledger enforces them.
const (
	RuleRoom      AdmissionRule = "waiting_room"
	RuleChallenge AdmissionRule = "captcha"
)

// RedislessItem is one SKU of a RedislessSale. Left is what may be sold now.
type RedislessItem struct {
	SKUID     string `json:"sku_id"`
	Name      string `json:"name"`
	ImageURL  string `json:"image_url"`
	Price     int64  `json:"price"`
	ListPrice int64  `json:"list_price"`
	Currency  string `json:"currency"`
	Total     int64  `json:"total"`
	Left      int64  `json:"left"`
}

// RedislessReserve requests units from the ledger, for at most MaxItems purchases of one activity.
type RedislessReserve struct {
	ActivityID string              `json:"activity_id"`
	Outage     int64               `json:"outage"` // as the caller last read it; purchases of another one are not sold
	Items      []RedislessPurchase `json:"items"`
}

// RedislessPurchase is one purchase of a RedislessReserve. Accepted hands over one that the gate has accepted before:
// it lands whatever the mode is, and before all others of the call.
type RedislessPurchase struct {
	OrderSN     string    `json:"order_sn"`
	UserID      string    `json:"user_id"`
	Lines       []Line    `json:"lines"`
	Accepted    bool      `json:"accepted,omitempty"`
	ReservedAt  time.Time `json:"reserved_at,omitzero"` // of an accepted one
	Traceparent string    `json:"traceparent,omitempty"`
}

// Validate returns what inventory refuses a request for, nil if nothing is wrong with it.
func (r RedislessReserve) Validate() error {
	if !ValidID(r.ActivityID) {
		return InvalidField("activity_id", "not an id")
	}
	if len(r.Items) < 1 || len(r.Items) > MaxItems {
		return InvalidField("items", fmt.Sprintf("must have 1 to %d elements", MaxItems))
	}
	seen := make(map[string]bool, len(r.Items))
	for i, p := range r.Items {
		at := fmt.Sprintf("items[%d]", i)
		if err := validatePurchase(p.OrderSN, p.UserID, r.ActivityID, p.Lines); err != nil {
			return InvalidField(at, err.Error())
		}
		switch {
		case seen[p.OrderSN]:
			return InvalidField(at+".order_sn", "duplicate order_sn")
		case p.Accepted && p.ReservedAt.IsZero():
			return InvalidField(at+".reserved_at", "an accepted purchase has the time of its reservation")
		}
		seen[p.OrderSN] = true
	}
	return nil
}

// RedislessOutcome is the decision about a RedislessPurchase.
type RedislessOutcome string

// The outcomes. Only reserved leaves a row in the ledger, except that an accepted purchase that is refused is recorded as
// rejected. After later the purchase may be repeated.
const (
	RedislessReserved     RedislessOutcome = "reserved" // also of a known order_sn, whatever became of it
	RedislessSoldOut      RedislessOutcome = "sold_out"
	RedislessLimitReached RedislessOutcome = "limit_reached"
	RedislessConflict     RedislessOutcome = "conflict"
	RedislessLater        RedislessOutcome = "later"
	RedislessNotStarted   RedislessOutcome = "not_started"
	RedislessEnded        RedislessOutcome = "ended"
	RedislessPaused       RedislessOutcome = "paused"
	RedislessUnknownSKU   RedislessOutcome = "unknown_sku"
)

// RedislessOutcomes lists all outcomes.
var RedislessOutcomes = []RedislessOutcome{
	RedislessReserved, RedislessSoldOut, RedislessLimitReached, RedislessConflict, RedislessLater, RedislessNotStarted,
	RedislessEnded, RedislessPaused, RedislessUnknownSKU,
}

// RedislessResults has a result for each purchase of a RedislessReserve, in its order.
type RedislessResults struct {
	Results []RedislessResult `json:"results"`
}

// RedislessResult is the outcome of one purchase.
type RedislessResult struct {
	Outcome  RedislessOutcome `json:"outcome"`
	Fresh    bool             `json:"fresh,omitempty"`     // reserved by this call
	Purchase *LedgerState     `json:"purchase,omitempty"`  // of reserved
	OrderSNs []string         `json:"order_sns,omitempty"` // of limit_reached: the purchases that hold units, latest last
	// BarredUntil is set with limit_reached if too many orders of the buyer were cancelled or expired.
	BarredUntil time.Time `json:"barred_until,omitzero"`
	StartsAt    time.Time `json:"starts_at,omitzero"` // of not_started
}

// RedislessLookup requests the states of at most MaxItems purchases of one activity, or of the latest ones of a user.
type RedislessLookup struct {
	ActivityID string   `json:"activity_id"`
	OrderSNs   []string `json:"order_sns,omitempty"`
	UserID     string   `json:"user_id,omitempty"`
}

// RedislessStates has the purchases that the ledger has.
type RedislessStates struct {
	Purchases []LedgerState `json:"purchases"`
}

// LedgerState is a purchase as the ledger has it. Status is one of those that buyers read.
type LedgerState struct {
	OrderSN    string    `json:"order_sn"`
	UserID     string    `json:"user_id"`
	Lines      []Line    `json:"lines"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason,omitempty"`
	ReservedAt time.Time `json:"reserved_at"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
}

// WorkerLease requests the lease of a worker id, or the renewal of one if Renew is set. Times are Unix ms.
type WorkerLease struct {
	Owner  string `json:"owner"`
	Renew  bool   `json:"renew,omitempty"`
	Worker int    `json:"worker,omitempty"` // to renew
	Seen   int64  `json:"seen,omitempty"`   // the highest ms that was ever confirmed to the caller
}

// LeasedWorker is a leased worker id. Worker is -1 if none is free, High is 0 if the owner does not hold the id. Now is
// the time of inventory's database.
type LeasedWorker struct {
	Worker  int   `json:"worker"`
	From    int64 `json:"from"`
	High    int64 `json:"high"`
	Now     int64 `json:"now"`
	Holders int   `json:"holders"` // of all such ids, the caller included
}
