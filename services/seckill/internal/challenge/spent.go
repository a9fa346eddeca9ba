package challenge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const spentPrefix = "fs:challenge:" // in the Redis of the limits

// Spent holds the answered challenges in the Redis of the limits, for all processes. While that is unavailable, each
// process holds those that it has seen.
type Spent struct {
	store *store

	mu    sync.Mutex
	local map[string]time.Time
}

func newSpent(s *store) *Spent { return &Spent{store: s, local: map[string]time.Time{}} }

// Spend reports whether this is the first answer to a challenge, over all processes while Redis is available. If the
// caller disconnects, the challenge is spent all the same.
func (s *Spent) Spend(ctx context.Context, challengeID string, until time.Time) bool {
	if !s.spendHere(challengeID, until) {
		return false
	}
	first := true
	err := s.store.do(ctx, func(ctx context.Context, rdb redis.UniversalClient) error {
		err := rdb.SetArgs(ctx, spentPrefix+challengeID, 1, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
		if errors.Is(err, redis.Nil) {
			first, err = false, nil
		}
		return err
	})
	return err != nil || first
}

// spendHere is Spend for this process alone.
func (s *Spent) spendHere(challengeID string, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, spent := s.local[challengeID]; spent {
		return false
	}
	now := until.Add(-ttl)
	prune(s.local, func(end time.Time) bool { return !end.After(now) })
	s.local[challengeID] = until
	return true
}
