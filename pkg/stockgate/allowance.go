package stockgate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// Allowance is whether a buyer may reserve units at all. Reserve decides each request itself.
type Allowance struct {
	Used        bool
	OrderSNs    []string  // if Used: the purchases that hold the buyer's units, latest last
	BarredUntil time.Time // as in Verdict
}

// Allowances returns the allowances of at most 256 buyers, in their order. It writes nothing. One script call,
// O(buyers).
func (g *Gate) Allowances(ctx context.Context, activityID string, userIDs []string) ([]Allowance, error) {
	if len(userIDs) == 0 {
		return nil, nil
	}
	if len(userIDs) > batchSize {
		return nil, fmt.Errorf("stockgate: %d buyers in one call, at most %d are allowed", len(userIDs), batchSize)
	}
	args := make([]any, len(userIDs))
	for i, id := range userIDs {
		if !contract.ValidUserID(id) {
			return nil, fmt.Errorf("stockgate: user id is malformed")
		}
		args[i] = id
	}
	reply, err := g.runStrings(ctx, scriptAllowances, activityID, args...)
	if err != nil {
		return nil, err
	}
	if len(reply) != len(userIDs) {
		return nil, fmt.Errorf("stockgate: %d allowances for %d buyers", len(reply), len(userIDs))
	}
	all := make([]Allowance, len(reply))
	for i, r := range reply {
		payload, used := strings.CutPrefix(r, outcomeNames[LimitReached]+";")
		if !used {
			continue
		}
		all[i].Used = true
		if all[i].OrderSNs, all[i].BarredUntil, err = decodeLimitReached(payload); err != nil {
			return nil, err
		}
	}
	return all, nil
}
