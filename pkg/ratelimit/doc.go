// Package ratelimit limits the rate of requests and the number of concurrent ones. It has eight rate algorithms. Each
// exists locally (lock-free or sharded, without allocation per decision) and on Redis (one atomic script) with the
// same results. A bulkhead limits concurrency.
//
//	limiter, err := ratelimit.NewLocal(ratelimit.Spec{
//		Algorithm: ratelimit.TokenBucket,
//		Limit:     ratelimit.Limit{Rate: 1000, Period: time.Second, Burst: 100},
//	})
//	res, err := ratelimit.Allow(ctx, limiter, userID) // or Take, with cost, bounded wait, at-most
//
// Guarantees of every algorithm:
//
//   - At most Burst + Rate*t permits are granted in any interval t (windows: Rate in any Period; the fixed window: Rate
//     in each of its windows). Rounding is always to the strict side.
//   - A refused request passes after Result.RetryAfter, unless other requests were granted in between. RetryAfter is
//     Never where no wait can help.
//   - A clock that goes back grants no permits. Redis limiters use the clock of Redis only.
//   - A refusal writes nothing.
//   - A call to Redis is sent once and never repeated, because a repeated call would charge twice.
//
// Units: every Duration is real time; Rate is in permits per Period; Burst is in permits.
//
// Package rules adds named rules that can change at run time, and the HTTP middleware.
package ratelimit
