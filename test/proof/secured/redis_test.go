package secured

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/lock"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/stockgate"
)

const (
	activityID = "1"
	sku        = "1"
	// longestGap bounds the time without an answer of the gate after its master was killed.
	longestGap = 10 * time.Second
)

// load returns the Redis of the gate and that of the limits, of the environment of a service.
func load(t *testing.T, environ map[string]string) (gate, limits settings.Redis) {
	t.Helper()
	var s struct {
		settings.App
		settings.Redis
		admission.Settings
	}
	require.NoError(t, settings.Load(&s, environ))
	return s.Redis, s.Settings.Redis(s.Redis)
}

// clients are what a service has on Redis.
type clients struct {
	gate    *stockgate.Gate
	locker  *lock.Locker
	lease   *ordersn.TermLease
	conn    *ratelimit.Conn
	limiter *ratelimit.Redis
	store   *rules.Store
	// access of the gate and of the limits, which write their log to one place.
	access [2]*redisconn.Access
	log    *logs
}

// logs is what the accesses have logged. It is safe for concurrent use.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func connect(t *testing.T, environ map[string]string, o stockgate.Options) *clients {
	t.Helper()
	gate, limits := load(t, environ)
	rdb := stockgate.Connect(gate.Addrs, gate.DB, redisconn.To(gate))
	limitsRDB := ratelimit.Connect(limits.Addrs, limits.DB, redisconn.To(limits))
	t.Cleanup(func() { _, _ = rdb.Close(), limitsRDB.Close() })
	c := &clients{log: &logs{}}
	log := slog.New(slog.NewTextHandler(c.log, nil))
	for i, r := range []struct {
		rdb  redis.UniversalClient
		name string
	}{{rdb, "gate"}, {limitsRDB, "limits"}} {
		c.access[i] = redisconn.Watch(r.rdb, r.name, log, noop.Int64Counter{})
	}
	discard := slog.New(slog.DiscardHandler)
	c.gate, c.locker, c.lease = stockgate.New(rdb, o), lock.New(rdb, discard), ordersn.NewRedisLease(rdb, discard)
	c.conn, c.store = ratelimit.NewConn(limitsRDB, ratelimit.ConnOptions{}), rules.NewStore(limitsRDB, "")
	var err error
	c.limiter, err = c.conn.NewRedis("secured", ratelimit.Spec{
		Algorithm: ratelimit.TokenBucket, Limit: ratelimit.PerSecond(1000),
	}, ratelimit.RedisOptions{OnFailure: ratelimit.FailLocal})
	require.NoError(t, err)
	return c
}

// requireServed makes calls of all kinds until each succeeds in Redis.
func (c *clients) requireServed(t *testing.T) {
	t.Helper()
	for what, do := range map[string]func(ctx context.Context) error{
		"lock": func(ctx context.Context) error {
			return c.locker.Do(ctx, "secured", func(context.Context, int64) error { return nil })
		},
		"limiter": func(ctx context.Context) error {
			got, err := ratelimit.Allow(ctx, c.limiter, "buyer")
			if err == nil && got.Source != ratelimit.SourceRedis {
				err = fmt.Errorf("decided by %s", got.Source)
			}
			return err
		},
		"eviction policy": c.conn.CheckEviction,
		"rules": func(ctx context.Context) error {
			_, _, err := c.store.Get(ctx)
			return err
		},
		"memory": func(ctx context.Context) error {
			_, err := c.gate.MeasureMemory(ctx)
			return err
		},
		"replication id": func(ctx context.Context) error {
			_, err := c.gate.ReplicationID(ctx)
			return err
		},
		"worker id": func(context.Context) error {
			if !c.lease.Held() {
				return errors.New("none yet")
			}
			return nil
		},
	} {
		var err error
		require.Eventually(t, func() bool {
			err = do(t.Context())
			return err == nil
		}, patience, 50*time.Millisecond, "%s: %v", what, err)
		require.NoError(t, err, what)
	}
}

// background runs what a service runs in the background, until the test ends.
func (c *clients) background(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{c.lease.Run, c.conn.Run, func(ctx context.Context) error {
		return c.store.Follow(ctx, rules.New(rules.Options{Conn: c.conn, Log: slog.New(slog.DiscardHandler)}))
	}} {
		running.Go(func() { _ = run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func (c *clients) preload(t *testing.T) {
	t.Helper()
	require.NoError(t, c.gate.Preload(t.Context(), activityID, stockgate.Snapshot{
		Config: stockgate.Config{
			State: stockgate.GateOpen, StartsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour),
			PerUserLimit: 10, Version: 1,
		},
		Stock: map[string]int64{sku: 1_000_000}, Totals: map[string]int64{sku: 1_000_000},
	}))
}

// sale reserves units by a few callers, each of which repeats a purchase until it is answered.
type sale struct {
	last     atomic.Int64 // number of the latest purchase
	stop     chan struct{}
	callers  sync.WaitGroup
	mu       sync.Mutex
	accepted []string
	answers  []time.Time // of each purchase that the gate accepted
	decided  []time.Time // of each reply, also unconfirmed ones
	other    map[string]int
}

func (c *clients) sell(t *testing.T) *sale {
	s := &sale{stop: make(chan struct{}), other: map[string]int{}}
	for range 4 {
		s.callers.Go(func() {
			for {
				n := s.last.Add(1)
				for !s.buy(t, c.gate, strconv.FormatInt(1_000_000+n, 10), "u"+strconv.FormatInt(n, 10)) {
					select {
					case <-s.stop:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
				select {
				case <-s.stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	return s
}

func (s *sale) buy(t *testing.T, gate *stockgate.Gate, orderSN, user string) bool {
	verdicts, err := gate.Reserve(t.Context(), activityID, []stockgate.Request{
		{OrderSN: orderSN, UserID: user, Lines: []stockgate.Line{{SKUID: sku, Qty: 1}}},
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.other[err.Error()]++
		return false
	}
	now := time.Now()
	s.decided = append(s.decided, now)
	if o := verdicts[0].Outcome; o != stockgate.Accepted && o != stockgate.Known {
		s.other[o.String()]++
		return false
	}
	s.accepted, s.answers = append(s.accepted, orderSN), append(s.answers, now)
	return true
}

// waitFor waits until purchases were accepted after a moment.
func (s *sale) waitFor(t *testing.T, what string, times *[]time.Time, after time.Time) time.Duration {
	t.Helper()
	var took time.Duration
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, at := range *times {
			if at.After(after) {
				took = at.Sub(after)
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, what)
	return took
}

// end stops the callers and requires that the gate has every purchase that was answered.
func (s *sale) end(t *testing.T, gate *stockgate.Gate) {
	t.Helper()
	close(s.stop)
	s.callers.Wait()
	for from := 0; from < len(s.accepted); from += 256 {
		some := s.accepted[from:min(from+256, len(s.accepted))]
		found, err := gate.Lookup(t.Context(), activityID, some)
		require.NoError(t, err)
		for _, sn := range some {
			require.Contains(t, found, sn, "answered and lost")
		}
	}
	t.Logf("%d purchases, all in the gate; repeated after: %v", len(s.accepted), s.other)
}

// drill sells over data servers, kills the gate's master, and requires that the sale goes on and that nothing is lost.
// kill returns what restarts the master: a cluster of two copies has no replica until then.
func drill(t *testing.T, environ map[string]string, kill func() (restart func()), all []*server) {
	c := connect(t, environ, stockgate.Options{WaitReplicas: 1})
	c.preload(t)
	c.background(t)
	c.requireServed(t)
	s := c.sell(t)
	s.waitFor(t, "the sale has begun", &s.answers, time.Now().Add(time.Second))

	killed := time.Now()
	restart := kill()
	// Calls that were in flight may have been answered by the lost master.
	after := killed.Add(1500 * time.Millisecond)
	decided := 1500*time.Millisecond + s.waitFor(t, "the gate decides again", &s.decided, after)
	require.Less(t, decided, longestGap)
	restart()
	accepted := 1500*time.Millisecond + s.waitFor(t, "purchases are accepted again", &s.answers, after)
	t.Logf("after the kill: the gate decides after %s, with a confirmed replica after %s", decided, accepted)
	require.Less(t, accepted, longestGap)
	s.waitFor(t, "the sale goes on", &s.answers, time.Now().Add(2*time.Second))
	s.end(t, c.gate)

	entries, err := c.gate.Lookup(t.Context(), activityID, s.accepted[:1])
	require.NoError(t, err)
	e := entries[s.accepted[0]]
	require.NoError(t, c.gate.Settle(t.Context(), activityID, []stockgate.Settlement{
		{OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines, Step: stockgate.StepPaid},
	}))
	journal, _, err := c.gate.ReadJournal(t.Context(), activityID, "relay", 10)
	require.NoError(t, err)
	require.NotEmpty(t, journal)
	require.NoError(t, c.gate.Ack(t.Context(), activityID, []string{journal[0].ID}))
	c.requireServed(t)
	for _, access := range c.access {
		require.NoError(t, access.Ready())
	}
	require.Empty(t, c.log.String(), "access was denied")
	for _, s := range all {
		s.requireNoDenials()
	}
}

// startWithSentinels starts a master, two replicas and three Sentinels, and returns the data servers, the environment of
// a service and the Sentinels.
func startWithSentinels(t *testing.T) (data []*server, environ map[string]string, sentinels []*server) {
	t.Helper()
	data = []*server{start(t, trusted, "", users(""))}
	for range 2 {
		replica := start(t, trusted, fmt.Sprintf("replicaof %s %d\n", host, data[0].port), users(""))
		replica.waitInfo("replication", "master_link_status:up")
		data = append(data, replica)
	}
	environ, sentinels = startSentinels(t, data[0].port)
	return data, environ, sentinels
}

// killMaster kills the server whose address master returns, and returns what starts it again once another one is the
// master.
func killMaster(t *testing.T, servers []*server, master func(ctx context.Context) (addr string, err error)) (restart func()) {
	t.Helper()
	was, err := master(t.Context())
	require.NoError(t, err)
	for _, s := range servers {
		if s.addr() == was {
			s.kill()
			return func() {
				require.Eventually(t, func() bool {
					now, err := master(t.Context())
					return err == nil && now != was
				}, patience, 50*time.Millisecond, "another master")
				s.run()
			}
		}
	}
	require.FailNow(t, "no such master", was)
	return nil
}

// masterAt returns the master that a Sentinel names.
func masterAt(sentinel *server) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		got, err := sentinel.admin.Do(ctx, "sentinel", "get-master-addr-by-name", "sale").StringSlice()
		if err != nil {
			return "", err
		}
		return net.JoinHostPort(got[0], got[1]), nil
	}
}

func TestSentinels(t *testing.T) {
	data, environ, sentinels := startWithSentinels(t)
	drill(t, environ, func() func() { return killMaster(t, data, masterAt(sentinels[0])) }, data)
}

// login are the credentials of a service.
func login(more ...string) map[string]string {
	environ := map[string]string{
		"REDIS_TLS": "true", "REDIS_USERNAME": "gate", "REDIS_PASSWORD": "gate-password",
		"LIMIT_REDIS_USERNAME": "limits", "LIMIT_REDIS_PASSWORD": "limits-password",
	}
	for _, m := range more {
		name, value, _ := strings.Cut(m, "=")
		environ[name] = value
	}
	return environ
}

// startSentinels starts three Sentinels of a master, and returns the environment of a service and the Sentinels.
func startSentinels(t *testing.T, masterPort int) (map[string]string, []*server) {
	t.Helper()
	var sentinels []*server
	var addrs []string
	for range 3 {
		s := start(t, trusted, "", fmt.Sprintf("user default off\nuser admin on >admin-password ~* &* +@all\n"+
			"user flashsale on >sentinel-password resetchannels "+rights["flashsale"]+"\n"+
			"sentinel sentinel-user admin\nsentinel sentinel-pass admin-password\n"+
			"sentinel monitor sale %s %d 2\nsentinel auth-user sale sentinel\nsentinel auth-pass sale sentinel-password\n"+
			"sentinel down-after-milliseconds sale 1500\nsentinel failover-timeout sale 10000\n", host, masterPort), "--sentinel")
		sentinels, addrs = append(sentinels, s), append(addrs, s.addr())
	}
	for _, s := range sentinels {
		s.wait("it has found replicas and Sentinels", func(ctx context.Context) bool {
			info, err := s.admin.Info(ctx, "sentinel").Result()
			return err == nil && strings.Contains(info, "status=ok") && strings.Contains(info, "slaves=2,sentinels=3")
		})
	}
	return login("REDIS_MODE=sentinel", "REDIS_SENTINEL_MASTER=sale", "REDIS_ADDRS="+strings.Join(addrs, ","),
		"REDIS_SENTINEL_USERNAME=flashsale", "REDIS_SENTINEL_PASSWORD=sentinel-password"), sentinels
}

// startCluster starts three masters with a replica each, and returns them and the environment of a service, which has
// one seed.
func startCluster(t *testing.T) (nodes []*server, environ map[string]string) {
	t.Helper()
	for range 6 {
		nodes = append(nodes, start(t, trusted, fmt.Sprintf("cluster-enabled yes\ntls-cluster yes\ncluster-port %d\n"+
			"cluster-announce-ip 127.0.0.1\ncluster-node-timeout 2000\ncluster-require-full-coverage no\n", freePort(t)),
			users(rights["cluster"])))
	}
	formCluster(t, nodes)
	return nodes, login("REDIS_MODE=cluster", "REDIS_ADDRS="+nodes[0].addr())
}

// masterOf returns the master of a sale's gate, as the nodes of a cluster see it that respond.
func masterOf(nodes []*server, activityID string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (addr string, err error) {
		for _, s := range nodes {
			var slot int64
			if slot, err = s.admin.ClusterKeySlot(ctx, "fs:{"+activityID+"}:gate").Result(); err != nil {
				continue
			}
			var slots []redis.ClusterSlot
			if slots, err = s.admin.ClusterSlots(ctx).Result(); err != nil { //nolint:staticcheck // as clients read it
				continue
			}
			for _, r := range slots {
				if int64(r.Start) <= slot && slot <= int64(r.End) {
					return r.Nodes[0].Addr, nil
				}
			}
		}
		return "", errors.Join(errors.New("no master of the gate"), err)
	}
}

func TestClusterByOneSeed(t *testing.T) {
	nodes, environ := startCluster(t)
	drill(t, environ, func() func() { return killMaster(t, nodes, masterOf(nodes, activityID)) }, nodes)
}

// formCluster makes the first three nodes masters and the others their replicas.
func formCluster(t *testing.T, nodes []*server) {
	t.Helper()
	var ids []string
	for i, s := range nodes {
		if i < 3 {
			require.NoError(t, s.admin.ClusterAddSlotsRange(t.Context(), i*16384/3, (i+1)*16384/3-1).Err())
		}
		require.NoError(t, s.admin.Do(t.Context(), "cluster", "set-config-epoch", i+1).Err())
		bus, err := s.admin.ConfigGet(t.Context(), "cluster-port").Result()
		require.NoError(t, err)
		require.NoError(t, nodes[0].admin.Do(t.Context(), "cluster", "meet", "127.0.0.1", s.port, bus["cluster-port"]).Err())
		id, err := s.admin.Do(t.Context(), "cluster", "myid").Text()
		require.NoError(t, err)
		ids = append(ids, id)
	}
	for _, s := range nodes {
		s.wait("it has met all nodes", func(ctx context.Context) bool {
			text, err := s.admin.ClusterNodes(ctx).Result()
			return err == nil && strings.Count(text, "\n") == len(nodes) && !strings.Contains(text, "handshake")
		})
	}
	for i, s := range nodes[3:] {
		s.wait("it is a replica", func(ctx context.Context) bool { return s.admin.ClusterReplicate(ctx, ids[i]).Err() == nil })
		s.waitInfo("replication", "master_link_status:up")
	}
	for _, s := range nodes {
		s.wait("the cluster is complete", func(ctx context.Context) bool {
			info, err := s.admin.ClusterInfo(ctx).Result()
			slots, serr := s.admin.ClusterSlots(ctx).Result() //nolint:staticcheck // as clients read it
			return err == nil && serr == nil && strings.Contains(info, "cluster_state:ok") && len(slots) == 3 &&
				!strings.Contains(fmt.Sprint(info), "cluster_slots_assigned:0") && len(slots[0].Nodes) == 2 &&
				len(slots[1].Nodes) == 2 && len(slots[2].Nodes) == 2
		})
	}
}

// Each wrong setting shows in the error of the gate, in readiness and in the log.
func TestWrongSettings(t *testing.T) {
	foreign, err := newAuthority()
	require.NoError(t, err)
	one := start(t, trusted, "", users("")+
		"user ping on >ping-password resetchannels ~* -@all +ping\n"+
		"user half on >half-password resetchannels "+rights["gate"]+" -xadd\n")
	other := start(t, trusted, fmt.Sprintf("replicaof 127.0.0.1 %d\n", one.port), users(""))
	third := start(t, trusted, fmt.Sprintf("replicaof 127.0.0.1 %d\n", one.port), users(""))
	other.waitInfo("replication", "master_link_status:up")
	third.waitInfo("replication", "master_link_status:up")
	sentinel, _ := startSentinels(t, one.port)
	unknown := startForeign(t, foreign)
	missing := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(missing, []byte("gate-password"), 0o600))

	with := func(of map[string]string, changes ...string) map[string]string {
		environ := map[string]string{}
		for name, value := range of {
			environ[name] = value
		}
		for _, c := range changes {
			name, value, _ := strings.Cut(c, "=")
			environ[name] = value
		}
		return environ
	}
	single := login("REDIS_ADDRS=" + one.addr())
	connect(t, single, stockgate.Options{}).preload(t)
	for name, c := range map[string]struct {
		environ map[string]string
		says    string
		denied  bool // the reply of a server; the others leave it unreachable
	}{
		"password":          {with(single, "REDIS_PASSWORD=wrong"), "WRONGPASS invalid username-password pair or user is disabled", true},
		"user":              {with(single, "REDIS_USERNAME=nobody"), "WRONGPASS", true},
		"no credentials":    {with(single, "REDIS_USERNAME=", "REDIS_PASSWORD="), "ERR Protocol error: unauthenticated", true}, // NOAUTH for a short call
		"no right":          {with(single, "REDIS_USERNAME=ping", "REDIS_PASSWORD=ping-password"), "NOPERM this user has no permissions to run the 'evalsha' command", true},
		"a script's right":  {with(single, "REDIS_USERNAME=half", "REDIS_PASSWORD=half-password"), "The user executing the script can't run this command", true},
		"server name":       {with(single, "REDIS_TLS_SERVER_NAME=other.test"), "x509: certificate is valid for backend.test, localhost, host.cluster.local, not other.test", false},
		"authority":         {with(single, "REDIS_ADDRS="+unknown), "x509: certificate signed by unknown authority", false},
		"Sentinel password": {with(sentinel, "REDIS_SENTINEL_PASSWORD=wrong"), "all sentinels specified in configuration are unreachable: WRONGPASS", true},
		"Sentinel login":    {with(sentinel, "REDIS_SENTINEL_USERNAME=", "REDIS_SENTINEL_PASSWORD="), "NOAUTH", true},
		"master":            {with(sentinel, "REDIS_SENTINEL_MASTER=nothing"), "the Sentinels have no master of this name: nothing", false},
		"not a cluster":     {with(single, "REDIS_MODE=cluster"), "NOPERM this user has no permissions to run the 'cluster|slots' command", true},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := connect(t, c.environ, stockgate.Options{})
			began := time.Now()
			_, err := c2.gate.Reserve(t.Context(), activityID, []stockgate.Request{
				{OrderSN: "1000001", UserID: "u", Lines: []stockgate.Line{{SKUID: sku, Qty: 1}}},
			})
			require.Less(t, time.Since(began), 5*time.Second)
			require.ErrorIs(t, err, stockgate.ErrUnavailable)
			require.NotErrorIs(t, err, redis.Nil)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.denied, errors.Is(err, stockgate.ErrDenied), err)
			require.ErrorContains(t, c2.access[0].Ready(), "redis of the gate denies access: ")
			require.ErrorContains(t, c2.access[0].Ready(), c.says)
			require.Contains(t, c2.log.String(), `level=ERROR msg="redis denies access" redis=gate`)
		})
	}
	t.Run("limits", func(t *testing.T) {
		c := connect(t, with(single, "LIMIT_REDIS_PASSWORD=wrong"), stockgate.Options{})
		got, err := ratelimit.Allow(t.Context(), c.limiter, "buyer")
		require.NoError(t, err)
		require.Equal(t, ratelimit.SourceFallback, got.Source, "as without Redis")
		require.ErrorContains(t, c.access[1].Ready(), "redis of the limits denies access: ")
		closed, err := c.conn.NewRedis("closed", ratelimit.Spec{
			Algorithm: ratelimit.TokenBucket, Limit: ratelimit.PerSecond(1),
		}, ratelimit.RedisOptions{OnFailure: ratelimit.FailClosed})
		require.NoError(t, err)
		_, err = ratelimit.Allow(t.Context(), closed, "buyer")
		require.ErrorIs(t, err, ratelimit.ErrUnavailable)
	})
	t.Run("file of a password", func(t *testing.T) {
		environ := with(single, "REDIS_PASSWORD=", "REDIS_PASSWORD_FILE="+missing)
		delete(environ, "REDIS_PASSWORD")
		c := connect(t, environ, stockgate.Options{})
		require.NoError(t, os.Remove(missing))
		_, err := c.gate.Now(t.Context())
		require.ErrorContains(t, err, "REDIS_PASSWORD_FILE names a file that cannot be read")
		require.ErrorContains(t, c.access[0].Ready(), "REDIS_PASSWORD_FILE")
	})
}

// startForeign starts a server whose certificate is of an authority that this process does not trust.
func startForeign(t *testing.T, by *authority) string {
	t.Helper()
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(by.pem))
	return startWith(t, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, by, "", users("")).addr()
}

// A password that was replaced in its file and at the servers holds at new connections; no call fails meanwhile.
func TestARotatedPassword(t *testing.T) {
	s := start(t, trusted, "", users(""))
	path := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte("gate-password\n"), 0o600))
	environ := login("REDIS_ADDRS="+s.addr(), "REDIS_PASSWORD_FILE="+path)
	delete(environ, "REDIS_PASSWORD")
	c := connect(t, environ, stockgate.Options{})
	c.preload(t)
	sale := c.sell(t)
	next := func(after time.Time) { sale.waitFor(t, "the sale goes on", &sale.answers, after) }
	next(time.Now())
	admin := func(args ...any) { require.NoError(t, s.admin.Do(t.Context(), args...).Err()) }
	admin("acl", "setuser", "gate", ">new-password") // both hold
	require.NoError(t, os.WriteFile(path, []byte("new-password\n"), 0o600))
	for _, step := range []func(){
		func() {}, // a connection that has read the old password may still log in with it
		func() { admin("acl", "setuser", "gate", "<gate-password") },
	} {
		step()
		admin("client", "kill", "user", "gate") // so that all connections are new
		next(time.Now().Add(500 * time.Millisecond))
	}
	sale.end(t, c.gate)
	require.Empty(t, c.log.String())
	s.requireNoDenials()
}
