// Package ratelimit decides who gets in: eight algorithms, each local (lock-free or sharded, no allocation per decision) and
// on Redis (one atomic script), with the same meaning, and a bulkhead, which bounds what runs at the same time.
//
//	limiter, err := ratelimit.NewLocal(ratelimit.Spec{
//		Algorithm: ratelimit.TokenBucket,
//		Limit:     ratelimit.Limit{Rate: 1000, Period: time.Second, Burst: 100},
//	})
//	res, err := limiter.Allow(ctx, userID)         // or Take, with cost, bounded wait, at-most
//
// What is promised, for every algorithm:
//
//   - Never more than the limit: what is granted in any interval t is at most Burst + Rate*t (windows: Rate in any Period,
//     the fixed window: Rate in each of its windows). Rounding always goes to the strict side.
//   - Waiting Result.RetryAfter suffices, as long as nobody else comes first. RetryAfter is Never where no wait can help.
//   - A clock that goes back gives nobody a permit. Redis limiters use the time of Redis only.
//   - A refusal writes nothing.
//   - A call to Redis is made once, never repeated; a repeated call would charge twice.
//
// Names of time: every Duration is real time; Rate is in permits per Period; Burst in permits.
//
// Package rules, below this one, has named rules which change while they run, and the HTTP middleware.
package ratelimit
