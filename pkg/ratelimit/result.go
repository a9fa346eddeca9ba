package ratelimit

import "time"

// Never is the RetryAfter of a request that no wait can help: it costs more than can be had at once.
const Never time.Duration = -1

// Unknown is the Remaining of a limiter that was not asked: another one refused first, or Redis is gone and all may pass.
const Unknown int64 = -1

// Source is who decided.
type Source uint8

// The sources.
const (
	SourceLocal     Source = iota // the limiter is local
	SourceRedis                   // Redis was asked
	SourceLease                   // from a slice of the quota that was fetched before
	SourceDenyCache               // refused before, and no permit can have come since
	SourceFallback                // Redis is gone: the local share, or open, or closed
)

// String names the source for metrics.
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

// Result is one decision.
type Result struct {
	Allowed    bool
	Granted    int64         // permits; with AtMost perhaps fewer than were asked for
	Remaining  int64         // permits that could be had at once, after this decision; Unknown if nobody was asked
	Wait       time.Duration // allowed, but only after this time; 0 unless MaxWait was given
	RetryAfter time.Duration // of a refusal: when the same request may pass; Never; 0 if allowed
	ResetAfter time.Duration // until all is as if nobody had ever come
	Limit      Limit
	Source     Source

	stamp int64 // when it was decided, in the units of who decided: names the window for a refund
	debit int64 // WarmUp: what the grant cost, in time, in the units of who decided
}

// Request is what is asked of a limiter.
type Request struct {
	// Key is who asks: a user, an address, "" for all together. It is hashed before it leaves the process.
	Key string
	// N is the cost in permits. 0 looks without taking anything.
	N int64
	// AtMost takes what is there of N, at least one, instead of all or nothing.
	AtMost bool
	// MaxWait is how long the caller would wait. A grant may then be for later: see Result.Wait. Ignored by the windows.
	MaxWait time.Duration
}
