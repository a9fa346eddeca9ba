package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Bounds of Spent.
const (
	spendTimeout  = 250 * time.Millisecond
	maxLocalSpent = 100_000
)

// Spent holds what may be used once, such as challenges and sign-ins: the ids that were used, in the Redis of the
// limits, for all processes. While that is unavailable, each process holds those that it has seen.
type Spent struct {
	rdb     redis.UniversalClient // nil: this process only
	prefix  string                // of the keys in Redis
	keep    time.Duration
	alone   bool // whether rdb is nil because there is only one process
	breaker *gobreaker.CircuitBreaker[bool]

	mu    sync.Mutex
	local map[string]time.Time // until when each is kept
}

// NewSpent returns a Spent with the Redis of the limits; nil means that this process is the only one. Each id is kept
// for that long from its use, which must be no shorter than it is valid.
func NewSpent(rdb redis.UniversalClient, prefix string, keep time.Duration) *Spent {
	return &Spent{
		rdb: rdb, prefix: prefix, keep: keep, alone: rdb == nil, local: map[string]time.Time{},
		breaker: gobreaker.NewCircuitBreaker[bool](gobreaker.Settings{
			Timeout: time.Second, MaxRequests: 1,
			ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
			IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
		}),
	}
}

// Shared reports whether all processes share the ids now.
func (s *Spent) Shared() bool { return s.alone || s.breaker.State() != gobreaker.StateOpen }

// Spend reports whether this is the first use of an id, over all processes if Shared. If the caller disconnects, the id
// is spent all the same.
func (s *Spent) Spend(ctx context.Context, id string) bool {
	if !s.spendHere(id, time.Now()) {
		return false
	}
	if s.alone {
		return true
	}
	first, err := s.breaker.Execute(func() (bool, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spendTimeout)
		defer cancel()
		err := s.rdb.SetArgs(ctx, s.prefix+id, 1, redis.SetArgs{Mode: "NX", TTL: s.keep}).Err()
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	})
	return err != nil || first
}

// spendHere is Spend for this process alone. If it holds too many, it drops those that have expired, and then any.
func (s *Spent) spendHere(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, spent := s.local[id]; spent {
		return false
	}
	if len(s.local) >= maxLocalSpent {
		s.forget(now)
	}
	s.local[id] = now.Add(s.keep)
	return true
}

func (s *Spent) forget(now time.Time) {
	for id, until := range s.local {
		if !until.After(now) {
			delete(s.local, id)
		}
	}
	for id := range s.local {
		if len(s.local) < maxLocalSpent*9/10 {
			return
		}
		delete(s.local, id)
	}
}
