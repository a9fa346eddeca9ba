package gate

import (
	"context"
	"errors"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
)

// RefusedRequests implements core.Gate.
func (g *Gate) RefusedRequests(ctx context.Context, activityID string) (core.RefusedRequests, error) {
	totals, err := g.gate.Totals(ctx, activityID)
	suspects, serr := g.gate.Suspects(ctx, activityID)
	if err := errors.Join(err, serr); err != nil {
		return core.RefusedRequests{}, translate(err)
	}
	return core.RefusedRequests{
		ByCode: totals.Refused, Solved: totals.Solved, Failed: totals.Failed,
		Addresses: suspectsOf(suspects.Addresses), Users: suspectsOf(suspects.Users),
	}, nil
}

func suspectsOf(list []stockgate.Suspect) []core.Suspect {
	out := make([]core.Suspect, len(list))
	for i, s := range list {
		out[i] = core.Suspect{
			Key: s.Key, Early: s.Early, RateLimited: s.RateLimited, FailedChallenges: s.FailedChallenges,
			VoidedPaths: s.VoidedPaths,
		}
	}
	return out
}
