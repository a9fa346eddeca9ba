package gate

import (
	"context"
	"errors"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/merchants"
)

// RefusedRequests implements merchants.Counts.
func (g *Gate) RefusedRequests(ctx context.Context, activityID string) (merchants.RefusedRequests, error) {
	totals, err := g.gate.Totals(ctx, activityID)
	suspects, serr := g.gate.Suspects(ctx, activityID)
	if err := errors.Join(err, serr); err != nil {
		return merchants.RefusedRequests{}, translate(err)
	}
	return merchants.RefusedRequests{
		ByCode: totals.Refused, Solved: totals.Solved, Failed: totals.Failed,
		Addresses: suspectsOf(suspects.Addresses), Users: suspectsOf(suspects.Users),
	}, nil
}

func suspectsOf(list []stockgate.Suspect) []merchants.Suspect {
	out := make([]merchants.Suspect, len(list))
	for i, s := range list {
		out[i] = merchants.Suspect{
			Key: s.Key, Early: s.Early, RateLimited: s.RateLimited, FailedChallenges: s.FailedChallenges,
			VoidedPaths: s.VoidedPaths,
		}
	}
	return out
}
