package secured

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

const (
	arrivals    = 500 // buyers a second while a master is killed
	salesFor    = 16 * time.Second
	killedAfter = 6 * time.Second
	payWithin   = 30 * time.Second

	longestOfSale = 5 * time.Minute
	prefix        = "shop-"
)

// system is the whole of Flashsale with back ends that refuse clients without TLS and rights.
type system struct {
	*rig.Rig
	db *database
	mq *broker
	// files of the credentials of each service, by process and setting
	files map[string]string
}

// startSystem prepares the services. environ has the settings of their Redis.
func startSystem(t *testing.T, mq *broker, environ map[string]string, opts ...rig.Option) *system {
	t.Helper()
	s := &system{db: startDatabase(t), mq: mq, files: map[string]string{}}
	dsn := map[string]string{}
	for _, service := range []string{"order", "inventory"} {
		dsn[service] = s.db.createUser(t, service, service)
	}
	opts = append(opts, rig.On("127.0.0.1:1", s.mq.nameServer, dsn["order"], dsn["inventory"]),
		func(p *rig.Dependencies) { p.TopicPrefix = prefix },
		rig.RedisBy(func() redis.UniversalClient { return adminOf(environ) }), rig.Env("REDIS_DB", "0"), rig.Env("SSL_CERT_DIR", os.Getenv("SSL_CERT_DIR")),
		rig.Env("PATH_RATE", "100000"))
	if environ["REDIS_MODE"] != "" { // otherwise there is no replica
		opts = append(opts, rig.Env("GATE_WAIT_REPLICAS", "1"))
	}
	for name, value := range environ {
		if strings.HasSuffix(name, "PASSWORD") {
			continue
		}
		opts = append(opts, rig.Env(name, value))
	}
	s.Rig = rig.New(t, opts...)
	for _, p := range s.Processes() {
		s.inFile(t, p, "REDIS_PASSWORD", environ["REDIS_PASSWORD"])
		s.inFile(t, p, "LIMIT_REDIS_PASSWORD", environ["LIMIT_REDIS_PASSWORD"])
		if environ["REDIS_SENTINEL_PASSWORD"] != "" {
			s.inFile(t, p, "REDIS_SENTINEL_PASSWORD", environ["REDIS_SENTINEL_PASSWORD"])
		}
		service := strings.TrimSuffix(p.Name, "-2")
		for name, value := range s.mq.settingsOf(service) {
			p.Set(name, value)
		}
		if dsn[service] != "" {
			s.inFile(t, p, "MYSQL_DSN", dsn[service])
		}
	}
	s.createTopics(t)
	s.Migrate(t)
	return s
}

// createTopics runs the topics command with its own user.
func (s *system) createTopics(t *testing.T) {
	t.Helper()
	cmd := exec.Command("go", "run", "./flashctl/cmd/topics")
	cmd.Dir = rig.Root(t)
	cmd.Env = append(os.Environ(), "ROCKETMQ_PREFIX="+prefix)
	for name, value := range s.mq.settingsOf("topics") {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// inFile gives a process a credential in a file, or replaces it there.
func (s *system) inFile(t *testing.T, p *rig.Process, setting, value string) {
	t.Helper()
	path, ok := s.files[p.Name+" "+setting]
	if !ok {
		path = filepath.Join(t.TempDir(), "credential")
		s.files[p.Name+" "+setting] = path
		p.FromFile(setting, path)
	}
	require.NoError(t, os.WriteFile(path+".new", []byte(value), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// survives sells to buyers while kill ends a master of the gate, and requires that the sale goes on, that no answered
// purchase is lost, and that gate, ledger and orders agree.
func (s *system) survives(t *testing.T, kill func(activityID string) (restart func())) {
	t.Helper()
	s.UsePatientClient(t)
	count := int(salesFor.Seconds()) * arrivals
	sale := shop.Open(t, s.Rig, shop.Sale{Stock: int64(count), PayWithinS: int64(payWithin.Seconds())})
	buyers := &shop.Buyers{
		Sale: sale, Client: s.Client, Count: count, PerSecond: arrivals, Rand: rand.New(rand.NewPCG(1, 2)),
	}
	ctx, cancel := context.WithTimeout(t.Context(), longestOfSale)
	defer cancel()
	began := time.Now()
	failed, wait := buyers.Start(ctx)
	require.NoError(t, shop.Until(failed, began.Add(killedAfter)))
	before := time.Now()
	restart := kill(sale.ActivityID)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d accepted before the kill", buyers.Accepted(began, before))
		}
	})
	restart()
	require.NoError(t, wait())
	ended := time.Now()
	rate := float64(buyers.Accepted(began.Add(time.Second), before)) / before.Sub(began.Add(time.Second)).Seconds()
	gap := longestGapOf(buyers, before, ended)
	t.Logf("%.0f purchases a second before the kill; none for at most %s after it", rate, gap)
	require.Less(t, gap, longestGap)
	buyers.Check(t, s.Rig)
}

// longestGapOf returns the longest time without an accepted purchase in the 30 s after a kill.
func longestGapOf(b *shop.Buyers, killed, ended time.Time) (longest time.Duration) {
	const step = 100 * time.Millisecond
	last, end := killed, killed.Add(30*time.Second)
	if ended.Before(end) {
		end = ended
	}
	for at := killed; at.Before(end) && b.Accepted(at, ended) > 0; at = at.Add(step) {
		if b.Accepted(at, at.Add(step)) > 0 {
			longest = max(longest, at.Sub(last))
			last = at.Add(step)
		}
	}
	return longest
}

// requireNoDenials requires that no service was refused anything.
func (s *system) requireNoDenials(t *testing.T, servers []*server) {
	t.Helper()
	for _, p := range s.Processes() {
		requireNoDenialIn(t, p.Name, p.Log(t))
	}
	for _, r := range servers {
		r.requireNoDenials()
	}
}

// requireNoDenialIn requires that no back end refused anything to the process of this log.
func requireNoDenialIn(t *testing.T, name, log string) {
	t.Helper()
	require.NotContains(t, log, "denies access", name)
	require.NotContains(t, log, "CODE: 16", name)
	require.NotContains(t, log, "Access denied", name)
}

// adminOf returns a client with all rights.
func adminOf(environ map[string]string) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: strings.Split(environ["REDIS_ADDRS"], ","), IsClusterMode: environ["REDIS_MODE"] == "cluster",
		MasterName: environ["REDIS_SENTINEL_MASTER"], SentinelUsername: "admin", SentinelPassword: "admin-password",
		Username: "admin", Password: "admin-password", TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	return redis.NewUniversalClient(o)
}

func TestASaleBehindSentinels(t *testing.T) {
	data, environ, sentinels := startWithSentinels(t)
	s := startSystem(t, startBroker(t, prefix), environ)
	s.Up(t)
	s.survives(t, func(string) func() { return killMaster(t, data, masterAt(sentinels[0])) })
	s.requireNoDenials(t, data)
}

func TestTheDemo(t *testing.T) {
	data, environ, _ := startWithSentinels(t)
	s := startSystem(t, startBroker(t, prefix), environ)
	s.Up(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := shop.NewFlashctl(t, s.Rig).Run(ctx, "demo")
	require.NoError(t, err, "%s", out)
	s.requireNoDenials(t, data)
}

func TestASaleOnACluster(t *testing.T) {
	nodes, environ := startCluster(t)
	s := startSystem(t, startBroker(t, prefix), environ)
	s.Up(t)
	s.survives(t, func(activityID string) func() { return killMaster(t, nodes, masterOf(nodes, activityID)) })
	s.requireNoDenials(t, nodes)
}
