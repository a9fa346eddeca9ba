package ratelimit

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDB keeps the tests apart from other data on the same server.
const testDB = 6

// patience is the time-out of calls in tests, so that a slow machine is not taken for an outage.
const patience = 20 * time.Second

// farOff is a period whose end no test sees: windows are aligned to Unix time 0, and those of a day end at midnight.
const farOff = 8001 * time.Hour

var nameSeq atomic.Int64

// uniqueName returns a name that is unique also across runs against the same server.
func uniqueName(t testing.TB) string {
	return fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano(), nameSeq.Add(1))
}

// realRedis connects to the server that `make test` starts.
func realRedis(t testing.TB) redis.UniversalClient {
	t.Helper()
	addrs := os.Getenv("REDIS_ADDRS")
	if addrs == "" {
		addrs = "127.0.0.1:16379"
	}
	rdb := Connect(strings.Split(addrs, ","), testDB, patient)
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoErrorf(t, rdb.Ping(t.Context()).Err(),
		"no Redis at %s (REDIS_ADDRS); run `make test`, which starts one", addrs)
	return rdb
}

func patient(o *redis.UniversalOptions) {
	o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout = patience, patience, patience, patience
}

// virtual is a clock that a test advances.
type virtual struct {
	mu  sync.Mutex
	now time.Time
}

func newVirtual() *virtual {
	return &virtual{now: time.Date(2026, 11, 21, 12, 0, 0, 123457000, time.UTC)}
}

func (v *virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

func (v *virtual) add(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = v.now.Add(d)
}

func (v *virtual) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = newVirtual().now
}

// mini is a miniredis on virtual time.
type mini struct {
	*miniredis.Miniredis
	virtual
	rdb redis.UniversalClient
}

func newMini(t testing.TB) *mini {
	m := &mini{Miniredis: miniredis.RunT(t), virtual: virtual{now: newVirtual().now}}
	m.SetTime(m.now)
	m.rdb = Connect([]string{m.Addr()}, 0, patient)
	t.Cleanup(func() { _ = m.rdb.Close() })
	return m
}

// restart resets the time.
func (m *mini) restart() {
	m.reset()
	m.SetTime(m.Now())
}

func (m *mini) pass(d time.Duration) {
	m.add(d)
	m.SetTime(m.Now())
	m.FastForward(d)
}

// backend is where a limiter runs: in this process or on miniredis (both on virtual time), or on Redis.
type backend struct {
	name string
	// limiter returns a new limiter. pass lets time pass.
	limiter func(s Spec) Limiter
	pass    func(d time.Duration)
	now     func() time.Time
	real    bool
}

func backends(t *testing.T) []backend {
	v := newVirtual()
	local := backend{
		name: "local", pass: v.add, now: v.Now,
		limiter: func(s Spec) Limiter {
			l, err := NewLocal(s, WithClock(v.Now))
			require.NoError(t, err)
			return l
		},
	}
	m := newMini(t)
	small := backend{
		name: "miniredis", pass: m.pass, now: m.Now,
		limiter: func(s Spec) Limiter { return onRedis(t, m.rdb, s) },
	}
	rdb := realRedis(t)
	big := backend{
		name: "redis", pass: time.Sleep, now: time.Now, real: true,
		limiter: func(s Spec) Limiter { return onRedis(t, rdb, s) },
	}
	return []backend{local, small, big}
}

// onRedis returns a limiter without a deny cache, which does not follow virtual time.
func onRedis(t testing.TB, rdb redis.UniversalClient, s Spec) *Redis {
	t.Helper()
	c := NewConn(rdb, ConnOptions{Timeout: patience, Prefix: "test"})
	l, err := c.NewRedis(uniqueName(t), s, RedisOptions{OnFailure: FailClosed, DenyCache: -1})
	require.NoError(t, err)
	return l
}

func take(t require.TestingT, l Limiter, key string, n int64) Result {
	r, err := l.Take(context.Background(), Request{Key: key, N: n})
	require.NoError(t, err)
	return r
}
