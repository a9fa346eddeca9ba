package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Spent holds what may be used once, such as challenges and sign-ins: the ids that were used, in the Redis of the
// limits, for all processes. While that is unavailable, each process holds those that it has seen.
type Spent struct {
	shared *Shared
	prefix string // of the keys in Redis
	keep   time.Duration

	mu    sync.Mutex
	local map[string]time.Time // until when each is kept
}

// NewSpent returns a Spent. Each id is kept for that long from its use, which must be no shorter than it is valid.
func NewSpent(shared *Shared, prefix string, keep time.Duration) *Spent {
	return &Spent{shared: shared, prefix: prefix, keep: keep, local: map[string]time.Time{}}
}

// Spend reports whether this is the first use of an id, over all processes while Redis is available. If the caller
// disconnects, the id is spent all the same.
func (s *Spent) Spend(ctx context.Context, id string) bool {
	if !s.spendHere(id, time.Now()) {
		return false
	}
	first := true
	err := s.shared.Do(ctx, func(ctx context.Context, rdb redis.UniversalClient) error {
		err := rdb.SetArgs(ctx, s.prefix+id, 1, redis.SetArgs{Mode: "NX", TTL: s.keep}).Err()
		if errors.Is(err, redis.Nil) {
			first, err = false, nil
		}
		return err
	})
	return err != nil || first
}

// spendHere is Spend for this process alone.
func (s *Spent) spendHere(id string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, spent := s.local[id]; spent {
		return false
	}
	Prune(s.local, func(until time.Time) bool { return !until.After(now) })
	s.local[id] = now.Add(s.keep)
	return true
}
