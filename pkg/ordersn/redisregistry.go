package ordersn

import (
	"context"
	_ "embed"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	leasesKey  = "fs:worker:leases"
	leaseFor   = 5 * time.Second
	clockSlack = 250 * time.Millisecond // by how much a promoted replica's clock may be behind the lost master's
)

//go:embed lua/acquire.lua
var acquireLua string

//go:embed lua/renew.lua
var renewLua string

var (
	acquireScript = redis.NewScript(acquireLua)
	renewScript   = redis.NewScript(renewLua)
)

// redisRegistry keeps the leases in Redis.
type redisRegistry struct {
	rdb  redis.UniversalClient
	key  string
	term time.Duration
}

// Acquire implements Registry.
func (r *redisRegistry) Acquire(
	ctx context.Context, owner string, seen int64,
) (worker int, from, high, now int64, err error) {
	first := mathrand.IntN(RedisWorkers) //nolint:gosec // no secret depends on it
	n, err := r.run(ctx, acquireScript, 4, owner, r.term.Milliseconds(), first, RedisWorkers, seen,
		clockSlack.Milliseconds())
	if err != nil {
		return 0, 0, 0, 0, err
	}
	return int(n[0]), n[1], n[2], n[3], nil
}

// Renew implements Registry.
func (r *redisRegistry) Renew(ctx context.Context, owner string, worker int) (high, now int64, err error) {
	n, err := r.run(ctx, renewScript, 2, owner, r.term.Milliseconds(), worker)
	if err != nil {
		return 0, 0, err
	}
	return n[0], n[1], nil
}

func (r *redisRegistry) run(ctx context.Context, s *redis.Script, values int, args ...any) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	texts, err := s.Run(ctx, r.rdb, []string{r.key}, args...).StringSlice()
	if err != nil {
		return nil, err
	}
	if len(texts) != values {
		return nil, fmt.Errorf("script returned %d values instead of %d", len(texts), values)
	}
	numbers := make([]int64, len(texts))
	for i, text := range texts {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("parse script result: %w", err)
		}
	}
	return numbers, nil
}
