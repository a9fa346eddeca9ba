package core

import (
	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Purchases decides which new purchases of one ledger transaction get units, first come, first served.
type Purchases interface {
	// Refusal returns why a purchase gets no units, "" if it gets them.
	Refusal(a *Activity, p contract.Reservation) string
	// Take counts the units of a purchase that gets them.
	Take(a *Activity, p contract.Reservation)
	// Write writes what Take has changed besides the moves, once they are written.
	Write(tx LedgerTx) error
}

// Decorator decorates the Purchases of those activities that sell without their gate.
type Decorator func(tx LedgerTx, next Purchases, activityIDs []string) (Purchases, error)

// HeldUnits are the Purchases that only the stock and the units that buyers hold bound.
type HeldUnits map[ledger.Buyer]int64

// HeldBy reads the allowances of these users, by activity.
func HeldBy(tx LedgerTx, users map[string][]string) (HeldUnits, error) {
	held := HeldUnits{}
	for activityID, ids := range users {
		byUser, err := tx.Allowances(activityID, ids)
		if err != nil {
			return nil, err
		}
		for user, n := range byUser {
			held[ledger.Buyer{ActivityID: activityID, UserID: user}] = n
		}
	}
	return held, nil
}

// Refusal implements Purchases: the limit of a buyer, and the stock.
func (h HeldUnits) Refusal(a *Activity, p contract.Reservation) string {
	if h[ledger.Buyer{ActivityID: a.ID, UserID: p.UserID}]+ledger.Units(p.Lines) > a.PerUserLimit {
		return ledger.ReasonLimitReached
	}
	for _, l := range p.Lines {
		if a.Item(l.SKUID).Available < l.Qty {
			return ledger.ReasonSoldOut
		}
	}
	return ""
}

// Take implements Purchases.
func (h HeldUnits) Take(a *Activity, p contract.Reservation) {
	h[ledger.Buyer{ActivityID: a.ID, UserID: p.UserID}] += ledger.Units(p.Lines)
	for _, l := range p.Lines {
		it := a.Item(l.SKUID)
		it.Available -= l.Qty
		it.Reserved += l.Qty
	}
}

// Write implements Purchases.
func (HeldUnits) Write(LedgerTx) error { return nil }
