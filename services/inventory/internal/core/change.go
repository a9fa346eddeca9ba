package core

import "time"

// Change is an entry of the change log: who did what to which object. It is never deleted.
type Change struct {
	At       time.Time
	Who      string
	Action   string
	Object   string
	ObjectID string // filled by the store where the change creates the object
	// MerchantID is the owner of the object, "" for one without an owner. The store fills it for products and
	// activities.
	MerchantID string
	Detail     any // as JSON
}

// IdempotencyKey scopes a caller's key.
type IdempotencyKey struct {
	Caller, Method, Path, Value string
	BodyHash                    [32]byte
}
