package core

import (
	"cmp"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Scope limits a query to what its caller may see: the objects of one merchant, or those of all merchants. The zero
// Scope contains nothing. Every method of a port that reads or changes a product, an activity or what belongs to
// it for a caller of the API takes one. Methods of the Service take a Scope, or a Caller, which has one. Limits belong
// to no merchant. Internal work, which concerns the activities of all merchants, uses AnyActivity and methods by
// order_sn.
type Scope struct {
	merchantID string
	all        bool
}

// OfMerchant returns the scope of what one merchant owns.
func OfMerchant(merchantID string) Scope { return Scope{merchantID: merchantID} }

// AllMerchants returns the scope of an operator.
func AllMerchants() Scope { return Scope{all: true} }

// Limit returns the merchant whose objects the scope contains. limited is false for the objects of all merchants.
func (s Scope) Limit() (merchantID string, limited bool) { return s.merchantID, !s.all }

// Caller is the caller of the merchants' API.
type Caller struct {
	UserID string // recorded with each change
	// MerchantID is the merchant that the caller acts for, who owns what the caller creates. It is "" for an operator
	// who acts for no merchant.
	MerchantID string
	Operator   bool
}

// Scope returns what the caller may see and change.
func (c Caller) Scope() Scope {
	if c.Operator {
		return AllMerchants()
	}
	return OfMerchant(c.MerchantID)
}

// Role returns the role that is recorded with the caller's changes.
func (c Caller) Role() string {
	if c.Operator {
		return RoleOperator
	}
	return RoleMerchant
}

// Owner returns the merchant who owns what the caller creates. It refuses a caller who acts for no merchant.
func (c Caller) Owner() (string, error) {
	if c.MerchantID == "" {
		return "", contract.Refuse(contract.CodeForbidden,
			"the token names no merchant, so there is no owner for a new object")
	}
	return c.MerchantID, nil
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

// ReservationPlace is the position of a reservation in the order of last changes.
type ReservationPlace struct {
	ChangedAt time.Time
	OrderSN   string
}

// Compare orders places by time and then by order_sn.
func (p ReservationPlace) Compare(q ReservationPlace) int {
	return cmp.Or(p.ChangedAt.Compare(q.ChangedAt), CompareIDs(p.OrderSN, q.OrderSN))
}

// RowVersion shows whether a row has changed since it was read.
type RowVersion struct {
	OrderSN   string
	State     ledger.State
	ChangedAt time.Time
}

// Page selects a part of a list: Limit rows after the id Cursor, "" for the start of the list.
type Page struct {
	Limit  int
	Cursor string
}
