// Package redisconn makes the Redis clients of a process and directs their log.
package redisconn

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flashsale.internal/pkg/settings"
)

// clusterReload is the interval at which a client of a cluster reads the map of slots. A refused dial does not make it
// read the map, so this bounds the time for which a lost master's slots have no server.
const clusterReload = time.Second

// New returns a client and never dials: an absent Redis shows in the first call. The caller's options hold time-outs and
// retries of calls, which differ by purpose. New sets the other options, and tune, such as To, may change the result.
//
// With a MasterName the addresses are those of Sentinels. With IsClusterMode, or if there are several, they are nodes of
// one Redis Cluster (DB must be 0 then). Else the single one is a server.
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
	switch {
	case o.MasterName != "":
		rdb := redis.NewFailoverClient(o.Failover())
		rdb.AddHook(sentinels{master: o.MasterName})
		return rdb
	case o.IsClusterMode || len(o.Addrs) > 1:
		c := o.Cluster()
		c.ClusterStateReloadInterval = clusterReload
		c.DisableRoutingPolicies = true // they need the right to run COMMAND, and no call of this system needs them
		return redis.NewClusterClient(c)
	}
	return redis.NewClient(o.Simple())
}

// To returns the option of New for the servers of s, and the credentials for them. The password is read at each new
// connection, that of the Sentinels once.
func To(s settings.Redis) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) {
		o.Addrs, o.DB, o.IsClusterMode = s.Addrs, s.DB, s.Cluster()
		if s.Password.IsSet() {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) {
				password, err := s.Password.Read()
				return s.Username, password, err
			}
		}
		if s.TLS {
			o.TLSConfig = &tls.Config{
				MinVersion: tls.VersionTLS12, ServerName: s.TLSServerName, GetClientCertificate: s.ForHandshake(),
			}
		}
		if s.Mode == settings.RedisSentinel {
			o.MasterName, o.SentinelUsername = s.SentinelMaster, s.SentinelUsername
			o.SentinelPassword = s.SentinelPassword.AtStart()
		}
	}
}

// LogTo sends the log of all Redis clients in the process to log, at debug: each failed call returns an error anyway.
// By default the clients write to standard error. Call it once, before the first client is used.
func LogTo(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf implements the client's logger interface.
func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, v...))
}
