package core

import "time"

// Product is what a merchant sells.
type Product struct {
	ID          string
	Name        string
	Description string
	ImageURL    string
	SKUs        []SKU
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// SKU is one variant of a product.
type SKU struct {
	ID        string
	ProductID string
	Name      string
	ListPrice int64
	Currency  string
}

// Adjustment adds pieces to a live stock or withdraws them.
type Adjustment struct {
	ID         string
	ActivityID string
	SKUID      string
	Delta      int64
	Reason     string
	State      string // intent, applied or refused
	Decision   string // "", taken or refused: what the figures in the database say
	CreatedBy  string
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// States and decisions of adjustments.
const (
	AdjustmentIntent  = "intent"
	AdjustmentApplied = "applied"
	AdjustmentRefused = "refused"
	DecisionTaken     = "taken"
	DecisionRefused   = "refused"
)

// DeadLetter is an item that a consumer gave up on.
type DeadLetter struct {
	ID          string
	Where       string
	Topic       string
	OrderSN     string
	ActivityID  string
	Why         string
	Item        []byte
	FailedAt    time.Time
	Traceparent string
	State       string // open, replayed or rejected
	Rejecting   bool   // its rejection has begun
	Occurrences int64
	DecidedBy   string
	DecidedAt   *time.Time
}

// States of dead letters.
const (
	DeadLetterOpen     = "open"
	DeadLetterReplayed = "replayed"
	DeadLetterRejected = "rejected"
)

// Change is who did what to which object, kept for ever.
type Change struct {
	At       time.Time
	Who      string
	Action   string
	Object   string
	ObjectID string // filled by the store where the change creates the object
	Detail   any    // as JSON
}

// IdempotencyKey scopes a caller's key.
type IdempotencyKey struct {
	Caller, Method, Path, Value string
	BodyHash                    [32]byte
}
