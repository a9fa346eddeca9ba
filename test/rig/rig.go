package rig

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb/dbtest"
)

// redisDB is the Redis database of the services. Rigs that share a Redis take the ten databases from this one on in
// turn, and each empties its own first. Changes of limits are published to all rigs of a Redis: a test that makes some
// does not run beside others.
const redisDB = 5

var sharing atomic.Int64 // rigs that share a Redis

// Dependencies holds the addresses of the real dependencies, and the names that this rig uses in them.
type Dependencies struct {
	RedisAddr, NameServer  string
	OrderDSN, InventoryDSN string
	TopicPrefix            string
	redisDB                int
	extra                  []string // further settings of every service
	absent                 bool     // the test creates topics and tables and empties Redis
	instances              int      // processes of each service
	programs               string   // folder of the programs of the services; "" means those of the work tree

	openRedis func() redis.UniversalClient // nil means RedisAddr, without credentials
}

// Option changes a rig before it starts.
type Option func(*Dependencies)

// Env adds a setting to every service.
func Env(name, value string) Option {
	return func(p *Dependencies) { p.extra = append(p.extra, name+"="+value) }
}

// Twice runs two processes of each service behind one address, also for calls between them.
func Twice() Option {
	return func(p *Dependencies) { p.instances = 2 }
}

// Programs runs the programs of the release before in that folder, with the settings that it needs.
func Programs(dir string) Option {
	return func(p *Dependencies) {
		p.programs = dir
		p.extra = append(p.extra, "PAYMENTS_SANDBOX=true")
	}
}

// On uses these dependencies instead of those of the environment. They need not run yet: the test creates topics and
// tables.
func On(redisAddr, nameServer, orderDSN, inventoryDSN string) Option {
	return func(p *Dependencies) {
		p.RedisAddr, p.NameServer, p.OrderDSN, p.InventoryDSN = redisAddr, nameServer, orderDSN, inventoryDSN
		p.absent = true
	}
}

// RedisBy makes the tests' own clients of the services' Redis.
func RedisBy(open func() redis.UniversalClient) Option {
	return func(p *Dependencies) { p.openRedis = open }
}

// Rig is the running system.
type Rig struct {
	Dependencies              Dependencies
	Seckill, Order, Inventory *Process // the first process of each service
	Client                    *client.Client

	services [][]*Process
}

// New prepares a rig and its dependencies (empty tables, empty Redis, topics). It does not start the services.
func New(t testing.TB, opts ...Option) *Rig {
	t.Helper()
	random := make([]byte, 4)
	_, _ = rand.Read(random)
	shared := first(getenv("REDIS_ADDRS", "127.0.0.1:16379"))
	p := Dependencies{
		RedisAddr:   shared,
		NameServer:  first(getenv("ROCKETMQ_NAMESRV", "127.0.0.1:19876")),
		TopicPrefix: "e2e-" + hex.EncodeToString(random) + "-",
		instances:   1,
		redisDB:     redisDB,
	}
	for _, o := range opts {
		o(&p)
	}
	if p.RedisAddr == shared {
		p.redisDB += int((sharing.Add(1) - 1) % 10)
	}
	if p.programs == "" {
		p.programs = Build(t)
	}
	if p.OrderDSN == "" {
		p.OrderDSN, p.InventoryDSN = dbtest.MariaDBDSN(t), dbtest.MariaDBDSN(t)
	}
	r := &Rig{Dependencies: p}
	logs := logFolder(t)
	process := func(name string, instance int, env ...string) *Process {
		public, admin := porttest.Free(t), porttest.Free(t)
		env = append(env, "HTTP_ADDR="+public, "ADMIN_ADDR="+admin, "APP_ENV=development", "AUTH_DEV_TOKENS=true",
			"PAYMENT_PROVIDERS=sandbox", "REDIS_ADDRS="+p.RedisAddr, "REDIS_DB="+strconv.Itoa(p.redisDB),
			"ROCKETMQ_NAMESRV="+p.NameServer, "ROCKETMQ_PREFIX="+p.TopicPrefix, "PATH="+os.Getenv("PATH"), "HOME="+logs)
		out := &Process{
			Name: name, URL: "http://" + public, Admin: "http://" + admin,
			fronts: map[string]*front{}, binary: filepath.Join(p.programs, name), env: append(env, p.extra...),
		}
		if instance > 0 {
			out.Name += "-" + strconv.Itoa(instance+1)
		}
		out.log = filepath.Join(logs, out.Name+".log")
		return out
	}
	var seckills, orders, inventories []*Process
	var orderInternals, inventoryInternals []string
	for i := range p.instances {
		orderInternals = append(orderInternals, porttest.Free(t))
		inventoryInternals = append(inventoryInternals, porttest.Free(t))
		seckills = append(seckills, process("seckill", i))
		orders = append(orders, process("order", i, "MYSQL_DSN="+p.OrderDSN, "INTERNAL_ADDR="+orderInternals[i]))
		inventories = append(inventories, process("inventory", i, "MYSQL_DSN="+p.InventoryDSN,
			"INTERNAL_ADDR="+inventoryInternals[i]))
	}
	internal := "http://" + oneAddress(t, inventories, inventoryInternals)
	for i := range p.instances {
		seckills[i].Set("INVENTORY_INTERNAL_URL", internal)
		orders[i].Set("INVENTORY_INTERNAL_URL", internal)
	}
	internal = "http://" + oneAddress(t, orders, orderInternals)
	for i := range p.instances {
		inventories[i].Set("ORDER_INTERNAL_URL", internal)
	}
	r.Seckill, r.Order, r.Inventory = seckills[0], orders[0], inventories[0]
	r.services = [][]*Process{seckills, orders, inventories}
	r.Client = client.New(client.Origins{
		Seckill: origin(t, seckills), Order: origin(t, orders), Inventory: origin(t, inventories),
	},
		client.Options{})
	t.Cleanup(r.Client.Close)
	t.Cleanup(func() {
		for _, process := range r.Processes() {
			assert.NoError(t, process.TryStop()) // the others are stopped too
			if t.Failed() {
				t.Logf("last lines of %s:\n%s", process.Name, process.Tail(30))
			}
		}
	})
	if !p.absent {
		r.PrepareBroker(t)
		r.Migrate(t)
		r.emptyRedis(t)
	}
	return r
}

// Start prepares a rig, starts the three services and waits until they are ready.
func Start(t testing.TB, opts ...Option) *Rig {
	t.Helper()
	r := New(t, opts...)
	r.Up(t)
	return r
}

// Up starts all processes and waits until they are ready.
func (r *Rig) Up(t testing.TB) {
	t.Helper()
	for _, p := range r.Processes() {
		p.Start(t)
	}
	for _, p := range r.Processes() {
		p.WaitReady(t)
	}
	r.Seckill.WaitStatus(t, r.Seckill.URL+"/v1/activities", 200, 3*time.Minute) // which needs a filled gate
}

// UsePatientClient replaces r.Client by one that repeats every failed call, so that a call that still fails is a defect.
// It has few connections, as the buyers share the machine with the services.
func (r *Rig) UsePatientClient(t testing.TB) {
	t.Helper()
	r.Client.Close()
	r.Client = client.New(r.Client.Origins(), client.Options{
		Secret: TokenSecret, Timeout: 10 * time.Second, Attempts: 1000, Connections: 64,
	})
	t.Cleanup(r.Client.Close)
}

// Services returns the processes of each service, in the order in which they are stopped.
func (r *Rig) Services() [][]*Process { return r.services }

// Processes returns the processes of all services.
func (r *Rig) Processes() []*Process { return slices.Concat(r.services...) }

// origin returns the URL of these processes of one service.
func origin(t testing.TB, processes []*Process) string {
	t.Helper()
	addrs := make([]string, len(processes))
	for i, p := range processes {
		addrs[i] = strings.TrimPrefix(p.URL, "http://")
	}
	return "http://" + oneAddress(t, processes, addrs)
}

// oneAddress returns one address for all of these, one of each process.
func oneAddress(t testing.TB, processes []*Process, addrs []string) string {
	t.Helper()
	if len(addrs) == 1 {
		return addrs[0]
	}
	f := before(t, addrs...)
	for i, p := range processes {
		p.fronts[addrs[i]] = f
	}
	return f.addr
}

// PrepareBroker creates the topics and the retry topics.
func (r *Rig) PrepareBroker(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cfg := rocketmq.Config{NameServers: []string{r.Dependencies.NameServer}, Prefix: r.Dependencies.TopicPrefix}
	require.NoError(t, rocketmq.EnsureTopics(ctx, cfg, contract.Topics(), contract.Groups()),
		"no RocketMQ at %s: run `make test`, which starts one", r.Dependencies.NameServer)
}

// Migrate runs `<service> migrate up`, as an operator does.
func (r *Rig) Migrate(t testing.TB) {
	t.Helper()
	for _, p := range []*Process{r.Order, r.Inventory} {
		p.Command(t, "migrate", "up")
	}
}

// Redis returns a client of the services' Redis database. It is closed when the test ends.
func (r *Rig) Redis(t testing.TB) redis.UniversalClient {
	t.Helper()
	var rdb redis.UniversalClient
	if r.Dependencies.openRedis != nil {
		rdb = r.Dependencies.openRedis()
	} else {
		rdb = redis.NewClient(&redis.Options{Addr: r.Dependencies.RedisAddr, DB: r.Dependencies.redisDB})
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// WithoutFsync lets Redis write without waiting for the disk until the end of the test. A disk that other work keeps
// busy would cause responses 503.
func (r *Rig) WithoutFsync(t testing.TB) {
	t.Helper()
	const name = "appendfsync"
	rdb := r.Redis(t)
	before, err := rdb.ConfigGet(t.Context(), name).Result()
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigSet(t.Context(), name, "no").Err())
	t.Cleanup(func() { require.NoError(t, rdb.ConfigSet(context.Background(), name, before[name]).Err()) })
}

func (r *Rig) emptyRedis(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, r.Redis(t).FlushDB(ctx).Err(), "no Redis at %s: run `make test`, which starts one",
		r.Dependencies.RedisAddr)
}

// logFolder returns the folder of the logs: a new one below E2E_LOGS, which is kept, or a temporary one.
func logFolder(t testing.TB) string {
	t.Helper()
	keep := os.Getenv("E2E_LOGS")
	if keep == "" {
		return t.TempDir()
	}
	require.NoError(t, os.MkdirAll(keep, 0o700))
	dir, err := os.MkdirTemp(keep, strings.ReplaceAll(t.Name(), "/", "-")+"-") //nolint:usetesting // the folder is kept
	require.NoError(t, err)
	return dir
}

// Main runs the tests of a package, calls after, deletes the binaries that they built, and exits. TestMain calls it.
func Main(m *testing.M, after ...func()) {
	code := m.Run()
	for _, do := range after {
		do()
	}
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, "delete the binaries of the tests:", err)
		}
	}
	os.Exit(code)
}

func getenv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func first(list string) string { return strings.TrimSpace(strings.Split(list, ",")[0]) }

// TokenSecret signs the tokens that the services of a rig accept.
const TokenSecret = settings.DevelopmentAuthSecret
