package reconcile

import (
	"context"
	"slices"

	"flashsale.internal/services/inventory/internal/ledger"
)

const (
	holderPage  = 1000 // users of one query
	lockedUsers = 50   // bounds the work under the locks
)

// repairAllowances compares every allowance with the units that the user's reservations hold. Those that differ are
// read again, and rewritten, under the locks of the activity's stock. Every transaction that changes allowances or
// reservations holds these locks. So no allowance is repaired while a transaction changes it.
func (p *pass) repairAllowances(ctx context.Context) error {
	for after := ""; ; {
		page, next, err := p.Rows.Holders(ctx, p.activity.ID, after, holderPage)
		if err != nil {
			return err
		}
		var differing []string
		for _, h := range page {
			if h.Held != h.Allowance {
				differing = append(differing, h.UserID)
			}
		}
		for users := range slices.Chunk(differing, lockedUsers) {
			if err := p.rewriteAllowances(ctx, users); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

// rewriteAllowances sets the allowances of these users to what their reservations hold, where they differ.
func (p *pass) rewriteAllowances(ctx context.Context, users []string) error {
	id := p.activity.ID
	var rewritten []string
	err := p.Rows.ChangeAllowances(ctx, id, func(tx AllowanceTx) error {
		rewritten = nil
		allowances, err := tx.Allowances(id, users)
		if err != nil {
			return err
		}
		held, err := tx.HeldByReservations(id, users)
		if err != nil {
			return err
		}
		for _, u := range users {
			if allowances[u] == held[u] {
				continue
			}
			rewritten = append(rewritten, u)
			if err := tx.SetAllowance(ledger.Buyer{ActivityID: id, UserID: u}, held[u]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, u := range rewritten {
		p.repaired(ctx, Repair{Kind: RepairAllowance, UserID: u})
	}
	return nil
}
