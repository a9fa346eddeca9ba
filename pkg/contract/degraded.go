package contract

import "time"

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
	ModeDirect    SaleMode = "direct"
	ModeReturning SaleMode = "returning"
)

// Modes lists the activities that have a degraded sale, and those whose mode is not gate.
type Modes struct {
	Now        time.Time      `json:"now"` // by the clock of inventory's database
	Activities []ActivityMode `json:"activities"`
}

// ActivityMode is the mode of an activity. Sale is nil while the mode is gate.
type ActivityMode struct {
	ActivityID string      `json:"activity_id"`
	Mode       SaleMode    `json:"mode"`
	Epoch      int64       `json:"epoch"`      // counts how often the mode became direct
	PerSecond  int64       `json:"per_second"` // purchases; 0: none are sold while the mode is direct
	Drop       int64       `json:"drop"`       // per cent of the purchase requests
	Sale       *DirectSale `json:"sale,omitempty"`
}

// DirectSale is a sale as buyers see it, by the tables.
type DirectSale struct {
	Title        string       `json:"title"`
	Description  string       `json:"description"`
	ImageURL     string       `json:"image_url"`
	State        string       `json:"state"` // open, paused or ended, as the merchant last set it
	StartsAt     time.Time    `json:"starts_at"`
	EndsAt       time.Time    `json:"ends_at"`
	PerUserLimit int64        `json:"per_user_limit"`
	PayWithinS   int64        `json:"pay_within_s"`
	Captcha      string       `json:"captcha,omitempty"` // as Captcha.String returns it
	Items        []DirectItem `json:"items"`
}

// DirectItem is one SKU of a DirectSale. Left is what may be sold now.
type DirectItem struct {
	SKUID     string `json:"sku_id"`
	Name      string `json:"name"`
	ImageURL  string `json:"image_url"`
	Price     int64  `json:"price"`
	ListPrice int64  `json:"list_price"`
	Currency  string `json:"currency"`
	Total     int64  `json:"total"`
	Left      int64  `json:"left"`
}

// DirectReserve requests units from the ledger, for at most MaxItems purchases of one activity.
type DirectReserve struct {
	ActivityID string           `json:"activity_id"`
	Epoch      int64            `json:"epoch"` // of the mode as the caller last read it; purchases of another one are not sold
	Items      []DirectPurchase `json:"items"`
}

// DirectPurchase is one purchase of a DirectReserve. Accepted hands over one that the gate has accepted before: it lands
// whatever the mode is, and before all others of the call.
type DirectPurchase struct {
	OrderSN     string    `json:"order_sn"`
	UserID      string    `json:"user_id"`
	Lines       []Line    `json:"lines"`
	Accepted    bool      `json:"accepted,omitempty"`
	ReservedAt  time.Time `json:"reserved_at,omitzero"` // of an accepted one
	Traceparent string    `json:"traceparent,omitempty"`
}

// DirectOutcome is the decision about a DirectPurchase.
type DirectOutcome string

// The outcomes. Only reserved leaves a row in the ledger, except that an accepted purchase that is refused is recorded as
// rejected. After later the purchase may be repeated.
const (
	DirectReserved     DirectOutcome = "reserved" // also of a known order_sn, whatever became of it
	DirectSoldOut      DirectOutcome = "sold_out"
	DirectLimitReached DirectOutcome = "limit_reached"
	DirectConflict     DirectOutcome = "conflict"
	DirectLater        DirectOutcome = "later"
	DirectNotStarted   DirectOutcome = "not_started"
	DirectEnded        DirectOutcome = "ended"
	DirectPaused       DirectOutcome = "paused"
	DirectUnknownSKU   DirectOutcome = "unknown_sku"
)

// DirectResults has a result for each purchase of a DirectReserve, in its order.
type DirectResults struct {
	Results []DirectResult `json:"results"`
}

// DirectResult is the outcome of one purchase.
type DirectResult struct {
	Outcome  DirectOutcome `json:"outcome"`
	Fresh    bool          `json:"fresh,omitempty"`     // reserved by this call
	Purchase *LedgerState  `json:"purchase,omitempty"`  // of reserved
	OrderSNs []string      `json:"order_sns,omitempty"` // of limit_reached: the purchases that hold units, latest last
	StartsAt time.Time     `json:"starts_at,omitzero"`  // of not_started
}

// DirectLookup requests the states of at most MaxItems purchases of one activity, or of the latest ones of a user.
type DirectLookup struct {
	ActivityID string   `json:"activity_id"`
	OrderSNs   []string `json:"order_sns,omitempty"`
	UserID     string   `json:"user_id,omitempty"`
}

// DirectStates has the purchases that the ledger has.
type DirectStates struct {
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
