package stockgate

import (
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/redisconn"
)

// Connect makes a client with the time-outs that a gate needs: a purchase waits for its reservation, so they are longer
// than those of a limiter. Package redisconn describes how addrs, db and tune are used.
func Connect(addrs []string, db int, tune ...func(*redis.UniversalOptions)) redis.UniversalClient {
	return redisconn.New(redis.UniversalOptions{
		Addrs:        addrs,
		DB:           db,
		DialTimeout:  time.Second,
		ReadTimeout:  750 * time.Millisecond,
		WriteTimeout: 750 * time.Millisecond,
		PoolTimeout:  500 * time.Millisecond,
		// One quick retry, for a connection that died while idle. The caller decides about further ones.
		MaxRetries:      1,
		MinRetryBackoff: 5 * time.Millisecond,
		MaxRetryBackoff: 25 * time.Millisecond,
		MaxRedirects:    3,
	}, tune...)
}
