package ratelimit

import "time"

// Never is the RetryAfter of a request that can never pass: it costs more than can be granted at once.
const Never time.Duration = -1

// Unknown is the Remaining of a limiter that made no decision: another one refused first, or Redis is unreachable and
// the limiter fails open.
const Unknown int64 = -1

// Source is the part of a limiter that made a decision.
type Source uint8

// The sources.
const (
	SourceLocal     Source = iota // a local limiter
	SourceRedis                   // a query to Redis
	SourceLease                   // permits leased from Redis before
	SourceDenyCache               // a cached refusal that still holds
	SourceFallback                // Redis is unreachable: the local share, or open, or closed
)

// String returns the name of the source in metrics.
func (s Source) String() string {
	switch s {
	case SourceLocal:
		return "local"
	case SourceRedis:
		return "redis"
	case SourceLease:
		return "lease"
	case SourceDenyCache:
		return "deny_cache"
	case SourceFallback:
		return "fallback"
	default:
		return "unknown"
	}
}

// Result is a decision.
type Result struct {
	Allowed    bool
	Granted    int64         // permits; with AtMost possibly fewer than requested
	Remaining  int64         // permits available at once after this decision; Unknown if the limiter did not decide
	Wait       time.Duration // the grant may be used after this time; 0 unless MaxWait was given
	RetryAfter time.Duration // of a refusal: when the same request may pass, or Never; of a Peek: see there; else 0
	ResetAfter time.Duration // until the key is as if it had never been used
	Limit      Limit
	Source     Source

	// For a refund: the limit that granted, and in the unit of the deciding state the window, the time of the entries of a
	// log, or the arrival time before the grant.
	by    *params
	stamp int64
	debit int64 // WarmUp: price of the grant, in the unit of the deciding state
}

// Request is a request for permits.
type Request struct {
	// Key is the subject of the limit: a user, an address, or "" for a limit shared by all. It is hashed before it is
	// sent.
	Key string
	// N is the cost in permits. 0 takes nothing and only returns the state.
	N int64
	// AtMost takes as many of the N permits as are available, at least one, instead of all or nothing.
	AtMost bool
	// MaxWait is the longest wait that the caller accepts. A grant may then be for a later time; see Result.Wait.
	// Windows ignore it.
	MaxWait time.Duration
}
