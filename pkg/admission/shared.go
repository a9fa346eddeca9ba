package admission

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

const (
	sharedTimeout = 250 * time.Millisecond
	// MaxLocal bounds what a process keeps by itself while the Redis of the limits is unavailable, in entries of each map.
	MaxLocal = 100_000
)

// errAlone means that this process shares nothing with others.
var errAlone = errors.New("no Redis of the limits")

// Shared calls the Redis of the limits while it responds. It is safe for concurrent use.
type Shared struct {
	rdb     redis.UniversalClient // nil: this process is the only one
	breaker *gobreaker.CircuitBreaker[struct{}]
}

// NewShared returns a Shared with the Redis of the limits; nil means that this process is the only one.
func NewShared(rdb redis.UniversalClient) *Shared {
	return &Shared{rdb, gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout: time.Second, MaxRequests: 1,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 },
	})}
}

// Do runs call for at most 250 ms, also if the caller disconnects. After an error the caller decides alone.
func (s *Shared) Do(ctx context.Context, call func(ctx context.Context, rdb redis.UniversalClient) error) error {
	if s.rdb == nil {
		return errAlone
	}
	_, err := s.breaker.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedTimeout)
		defer cancel()
		return struct{}{}, call(ctx, s.rdb)
	})
	return err
}

// Prune makes room in a map that holds MaxLocal entries: it drops those that have expired, and then any.
func Prune[V any](local map[string]V, expired func(V) bool) {
	if len(local) < MaxLocal {
		return
	}
	for key, v := range local {
		if expired(v) {
			delete(local, key)
		}
	}
	for key := range local {
		if len(local) < MaxLocal*9/10 {
			return
		}
		delete(local, key)
	}
}
