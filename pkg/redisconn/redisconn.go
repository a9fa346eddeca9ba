// Package redisconn makes the Redis clients of a process and directs their log.
package redisconn

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// New returns a client and never dials: an absent Redis shows in the first call. The caller's options hold addresses,
// time-outs and retries of calls, which differ by purpose. New sets the other options, and tune may change the result.
// Several addresses are nodes of one Redis Cluster (DB must be 0 then), a single one is a single server.
func New(o redis.UniversalOptions, tune ...func(*redis.UniversalOptions)) redis.UniversalClient {
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.PoolSize = 32
	o.ConnMaxIdleTime = 5 * time.Minute
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for _, t := range tune {
		t(&o)
	}
	return redis.NewUniversalClient(&o)
}

// LogTo sends the log of all Redis clients in the process to log, at debug: each failed call returns an error anyway.
// By default the clients write to standard error. Call it once, before the first client is used.
func LogTo(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf implements the client's logger interface.
func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}
