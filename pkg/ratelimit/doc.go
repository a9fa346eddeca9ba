// Package ratelimit limits the rate of requests and the number of concurrent ones. It has six rate algorithms under
// eight names: TokenBucket, GCRA and LeakyBucket are the same one. Each exists locally (see Local for its locks) and on
// Redis (one atomic script), with the same results up to rounding. A bulkhead limits concurrency.
//
//	limiter, err := ratelimit.NewLocal(ratelimit.Spec{
//		Algorithm: ratelimit.TokenBucket,
//		Limit:     ratelimit.Limit{Rate: 1000, Period: time.Second, Burst: 100},
//	})
//	res, err := ratelimit.Allow(ctx, limiter, userID) // or Take, with cost, bounded wait, at-most
//
// Guarantees of every algorithm:
//
//   - At most Burst + Rate*t permits are granted in any interval t (LeakyQueue: 1 + Rate*t; windows: Rate in any
//     Period; the fixed window: Rate in each of its windows). Rounding is always to the strict side. Leases and
//     outages of Redis can exceed this; see README.md.
//   - A refused request passes after Result.RetryAfter, unless other requests were granted in between. RetryAfter is
//     Never where no wait can help.
//   - A clock that goes back grants no permits. Redis limiters use the clock of Redis only.
//   - A refusal spends nothing. On Redis it can still write: it converts a value that was written under another limit
//     or before the clock was set back, and records grants that a process made without Redis.
//   - A call to Redis is never repeated after it may have run, because a repeated call would charge twice. Only a
//     script that Redis has not loaded is sent again, with its source: it did not run.
//
// Units: every Duration is real time; Rate is in permits per Period; Burst is in permits.
//
// Package rules adds named rules that can change at run time, and the HTTP middleware.
package ratelimit
