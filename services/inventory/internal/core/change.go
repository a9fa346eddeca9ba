package core

import "time"

// Change is an entry of the change log: who did what to which object. It is never deleted.
type Change struct {
	At       time.Time
	Who      string
	Role     string // RoleMerchant or RoleOperator; "" for a repair by the timer
	Action   string
	Object   string
	ObjectID string // filled by the store where the change creates the object
	// MerchantID is the owner of the object, "" for one without an owner. The store fills it for products and
	// activities.
	MerchantID string
	Detail     any // as JSON
}

// PastChange is an entry of the change log as it was stored.
type PastChange struct {
	ID     string
	At     time.Time
	Who    string
	Role   string // RoleMerchant or RoleOperator; "" for repairs of the reconciler
	Action string
	Detail string // JSON; "" without any
}

// Reconciler is the actor recorded for repairs that no operator requested, ActionReconcile the action of all repairs,
// ActionRestore that of a decision which only the gate had.
const (
	Reconciler      = "reconciler"
	ActionReconcile = "activity.reconcile"
	ActionRestore   = "activity.restore"
)

// Roles of the merchants and operators who make changes.
const (
	RoleMerchant = "merchant"
	RoleOperator = "operator"
)

// IdempotencyKey scopes a caller's key.
type IdempotencyKey struct {
	Caller, Method, Path, Value string
	BodyHash                    [32]byte
}

// Of returns the key of a call that creates an object of a merchant. One user may act for several merchants on the
// same path, so the path of the key also names the merchant. No URL path contains a #.
func (k *IdempotencyKey) Of(merchantID string) *IdempotencyKey {
	if k == nil {
		return nil
	}
	c := *k
	c.Path += "#" + merchantID
	return &c
}
