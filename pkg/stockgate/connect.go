package stockgate

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Connect makes a client with the time-outs and bounds that a gate needs. It never dials: an absent Redis shows in the
// first call. Several addresses are nodes of one Redis Cluster (db must be 0 then), a single one is a single server; tune
// changes the options before use, for example IsClusterMode, MasterName, TLSConfig or Password.
func Connect(addrs []string, db int, tune ...func(*redis.UniversalOptions)) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: addrs,
		DB:    db,

		DialTimeout:           time.Second,
		DialerRetries:         1,
		ReadTimeout:           750 * time.Millisecond,
		WriteTimeout:          750 * time.Millisecond,
		ContextTimeoutEnabled: true,

		// One quick retry, for a connection that died while idle. Whoever calls decides about the next.
		MaxRetries:      1,
		MinRetryBackoff: 5 * time.Millisecond,
		MaxRetryBackoff: 25 * time.Millisecond,
		MaxRedirects:    3,

		PoolSize:        32,
		PoolTimeout:     500 * time.Millisecond,
		ConnMaxIdleTime: 5 * time.Minute,

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, t := range tune {
		t(o)
	}
	return redis.NewUniversalClient(o)
}
