package core

import (
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

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
