package challenge

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	storeTimeout = 250 * time.Millisecond
	// maxLocal bounds each map that a process keeps while Redis is unavailable, in entries.
	maxLocal = 100_000
)

// errAlone means that this process shares nothing with others now.
var errAlone = errors.New("no Redis of the limits")

// store calls the Redis of the limits while it responds.
type store struct {
	rdb     redis.UniversalClient // nil: this process is the only one
	breaker *gobreaker.CircuitBreaker[struct{}]
}

func newStore(rdb redis.UniversalClient) *store {
	return &store{rdb, gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: time.Second, MaxRequests: 1,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
	})}
}

// do runs call, which is complete also if the buyer disconnects. After an error the caller decides alone.
func (s *store) do(ctx context.Context, call func(ctx context.Context, rdb redis.UniversalClient) error) error {
	if s.rdb == nil {
		return errAlone
	}
	_, err := s.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		return struct{}{}, call(ctx, s.rdb)
	})
	return err
}

// prune makes room in a map that holds maxLocal entries: it drops those that have expired, and then any.
func prune[V any](local map[string]V, expired func(V) bool) {
	if len(local) < maxLocal {
		return
	}
	for key, v := range local {
		if expired(v) {
			delete(local, key)
		}
	}
	for key := range local {
		if len(local) < maxLocal*9/10 {
			return
		}
		delete(local, key)
	}
}
