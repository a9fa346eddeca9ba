package stockgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	clusterAddr string       // a Redis Cluster of one node, which refuses scripts that mix slots
	activitySeq atomic.Int64 // unique activity ids, also across runs against a server that keeps its data
)

func TestMain(m *testing.M) {
	activitySeq.Store(time.Now().UnixNano())
	stop, err := startCluster()
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need redis-server 7 on the PATH, which `make test` installs:", err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// startCluster starts a Redis Cluster of one node. Another process may take a free port first, so it tries several.
func startCluster() (stop func(), err error) {
	for range 5 {
		if stop, err = tryCluster(); err == nil {
			return stop, nil
		}
	}
	return nil, err
}

func tryCluster() (stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	busPort, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stockgate-cluster-")
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--cluster-port", strconv.Itoa(busPort),
		"--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes")
	cmd.Stdout = &output
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	stop = func() {
		_ = cmd.Process.Kill()
		<-exited
		_ = os.RemoveAll(dir)
	}
	clusterAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	rdb := redis.NewClient(&redis.Options{Addr: clusterAddr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for slots := false; ; {
		if !slots {
			slots = rdb.ClusterAddSlotsRange(ctx, 0, 16383).Err() == nil
		}
		if info, err := rdb.ClusterInfo(ctx).Result(); err == nil && strings.Contains(info, "cluster_state:ok") {
			return stop, nil
		}
		select {
		case <-exited:
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
			continue
		}
		stop()
		return nil, fmt.Errorf("no cluster at %s: %s", clusterAddr, output.String())
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// env is one gate on one kind of server.
type env struct {
	*Gate
	t          testing.TB
	rdb        redis.UniversalClient
	activityID string
	// opts are those of the Gate.
	opts Options
	// full: the server has reached maxmemory and refuses MULTI, so that image is no snapshot.
	full bool
}

func newEnv(t testing.TB, rdb redis.UniversalClient, opts Options) *env {
	if opts.Timeout == 0 {
		opts.Timeout = patience
	}
	activityID := strconv.FormatInt(activitySeq.Add(1), 10)
	return &env{Gate: New(rdb, opts), t: t, rdb: rdb, activityID: activityID, opts: opts}
}

// patience is how long a test waits for one reply. Writes wait for the disk, which stalls at times on a busy machine.
const patience = 20 * time.Second

func patient(o *redis.UniversalOptions) {
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = patience, patience, patience, patience
}

// realRedis connects to the server that `make test` starts.
func realRedis(t testing.TB) redis.UniversalClient {
	addrs := os.Getenv("REDIS_ADDRS")
	if addrs == "" {
		addrs = "127.0.0.1:16379"
	}
	rdb := Connect(strings.Split(addrs, ","), 1, patient)
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoErrorf(t, rdb.Ping(t.Context()).Err(), "no Redis at %s (REDIS_ADDRS); run `make test`, which starts one", addrs)
	return rdb
}

func miniRedis(t testing.TB) redis.UniversalClient {
	m := miniredis.RunT(t)
	rdb := Connect([]string{m.Addr()}, 1, patient)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func clusterRedis(t testing.TB) redis.UniversalClient {
	rdb := Connect([]string{clusterAddr}, 0, patient, func(o *redis.UniversalOptions) { o.IsClusterMode = true })
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// eachServer runs a test on Redis, on a Redis Cluster and on miniredis.
func eachServer(t *testing.T, opts Options, test func(t *testing.T, e *env)) {
	for _, server := range []struct {
		name    string
		connect func(testing.TB) redis.UniversalClient
	}{{"redis", realRedis}, {"cluster", clusterRedis}, {"miniredis", miniRedis}} {
		t.Run(server.name, func(t *testing.T) {
			e := newEnv(t, server.connect(t), opts)
			t.Cleanup(func() { e.wipe() })
			test(t, e)
		})
	}
}

// wipe deletes all keys of the gate, as if Redis had lost its data.
func (e *env) wipe() {
	ctx := context.Background()
	require.NoError(e.t, e.rdb.Del(ctx, keysOf(e.activityID)...).Err())
	require.NoError(e.t, e.rdb.SRem(ctx, keyActivities, e.activityID).Err())
}

// openConfig returns the configuration of a sale that began an hour ago and lasts for another hour.
func openConfig() Config {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return Config{State: GateOpen, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), PerUserLimit: 2, Version: 1}
}

// open preloads a gate with the given units of SKU 1 and, if there is a second number, of SKU 2.
func (e *env) open(c Config, stock ...int64) {
	e.t.Helper()
	s := Snapshot{Config: c, Stock: map[string]int64{}, Totals: map[string]int64{}}
	for i, n := range stock {
		sku := strconv.Itoa(i + 1)
		s.Stock[sku], s.Totals[sku] = n, n
	}
	require.NoError(e.t, e.Preload(e.t.Context(), e.activityID, s))
	e.check()
}

func lines(qty ...int64) []Line {
	var ls []Line
	for i, n := range qty {
		if n > 0 {
			ls = append(ls, Line{SKUID: strconv.Itoa(i + 1), Qty: n})
		}
	}
	return ls
}

func (e *env) reserve(sn, user string, ls []Line) Verdict {
	e.t.Helper()
	vs, err := e.Reserve(e.t.Context(), e.activityID, []Request{{OrderSN: sn, UserID: user, Lines: ls}})
	require.NoError(e.t, err)
	e.check()
	return vs[0]
}

func (e *env) settle(sn, user string, ls []Line, step Step) {
	e.t.Helper()
	s := Settlement{OrderSN: sn, UserID: user, Lines: ls, Step: step}
	if step == StepCreated {
		s.ExpiresAt = deadline
	}
	require.NoError(e.t, e.Settle(e.t.Context(), e.activityID, []Settlement{s}))
	e.check()
}

// deadline is the end of the pay windows in these tests.
var deadline = time.Now().Add(10 * time.Minute).UTC().Truncate(time.Millisecond)

func (e *env) release(sn, user string, ls []Line, reason string) {
	e.t.Helper()
	require.NoError(e.t, e.Release(e.t.Context(), e.activityID, []Ending{{OrderSN: sn, UserID: user, Lines: ls, Reason: reason}}))
	e.check()
}

func (e *env) drop(sn, user string, ls []Line, reason string) {
	e.t.Helper()
	require.NoError(e.t, e.Drop(e.t.Context(), e.activityID, []Ending{{OrderSN: sn, UserID: user, Lines: ls, Reason: reason}}))
	e.check()
}

func (e *env) entry(sn string) Entry {
	e.t.Helper()
	found, err := e.Lookup(e.t.Context(), e.activityID, []string{sn})
	require.NoError(e.t, err)
	require.Contains(e.t, found, sn)
	return found[sn]
}

func (e *env) counts(sku string) Counts {
	e.t.Helper()
	a, err := e.Audit(e.t.Context(), e.activityID)
	require.NoError(e.t, err)
	return a.SKUs[sku]
}

// maxEnded bounds the ended purchases that a buyer's record lists. lua/prelude.lua has the same number.
const maxEnded = 16

// image is the content of a gate, read key by key without the scripts.
type image struct {
	gate     map[string]string
	entries  map[string]Entry
	journals map[string]string // order_sn -> id of its last journal entry
	buyers   map[string]string
	messages []redis.XMessage // the journal
	// journaled holds the counters of the journal's content.
	journaled map[string]string
	unlanded  []string
	ended     []string
}

func (e *env) image() image {
	e.t.Helper()
	ctx := context.Background()
	p := e.rdb.TxPipeline()
	if e.full {
		p = e.rdb.Pipeline()
	}
	gate := p.HGetAll(ctx, keyOf(e.activityID, "gate"))
	held := p.HGetAll(ctx, keyOf(e.activityID, "held"))
	buyers := p.HGetAll(ctx, keyOf(e.activityID, "buyers"))
	unlanded, ended := p.ZRange(ctx, keyOf(e.activityID, "unlanded"), 0, -1), p.ZRange(ctx, keyOf(e.activityID, "ended"), 0, -1)
	messages, journaled := p.XRange(ctx, keyOf(e.activityID, "journal"), "-", "+"), p.HGetAll(ctx, keyOf(e.activityID, "journaled"))
	_, err := p.Exec(ctx)
	require.NoError(e.t, err)
	im := image{
		gate: gate.Val(), entries: map[string]Entry{}, journals: map[string]string{}, buyers: buyers.Val(),
		unlanded: unlanded.Val(), ended: ended.Val(), messages: messages.Val(), journaled: journaled.Val(),
	}
	for sn, stored := range held.Val() {
		im.entries[sn], err = decodeEntry(sn, stored)
		require.NoError(e.t, err)
		if id := strings.Split(stored, "|")[7]; id != "" {
			im.journals[sn] = id
		}
	}
	slices.Sort(im.unlanded)
	slices.Sort(im.ended)
	return im
}

// checkJournal compares the counters of the journal's content with the journal.
func (im image) checkJournal(t testing.TB) {
	t.Helper()
	want := map[string]int64{}
	for _, m := range im.messages {
		for i, e := range appendJournalEntry(nil, "", m.ID, m.Values["r"].(string)) {
			if i > 0 {
				want["joined"]++
			}
			for _, l := range e.Lines {
				want[l.SKUID] += l.Qty
			}
		}
	}
	for field, value := range im.journaled {
		require.Equal(t, strconv.FormatInt(want[field], 10), value, "journal counter %s", field)
		delete(want, field)
	}
	require.Empty(t, want, "journal counters are missing")
}

// check recomputes from the entries all counters, buyers' records and indexes, and compares them with the gate's. It
// checks left + held + sold = total for each SKU. It returns what it has read.
func (e *env) check() image {
	e.t.Helper()
	im := e.image()
	im.checkJournal(e.t)
	if len(im.gate) == 0 {
		return im
	}
	want := map[string]int64{"held": 0}
	var unlanded, ended []string
	units, held, endedOf := map[string]int64{}, map[string][]string{}, map[string][]string{}
	for sn, en := range im.entries {
		if en.terminal() {
			ended = append(ended, sn)
			endedOf[en.UserID] = append(endedOf[en.UserID], sn)
			continue
		}
		held[en.UserID] = append(held[en.UserID], sn)
		queued := en.Status == StatusQueued && !en.Landed
		if queued {
			unlanded = append(unlanded, sn)
		}
		for _, l := range en.Lines {
			units[en.UserID] += l.Qty
			if en.Status == StatusPaid {
				want["p:"+l.SKUID] += l.Qty
				continue
			}
			want["h:"+l.SKUID] += l.Qty
			want["held"] += l.Qty
			if queued {
				want["u:"+l.SKUID] += l.Qty
			}
		}
	}
	number := func(field string) int64 {
		n, err := strconv.ParseInt("0"+im.gate[field], 10, 64)
		if strings.HasPrefix(im.gate[field], "-") {
			n, err = strconv.ParseInt(im.gate[field], 10, 64)
		}
		require.NoError(e.t, err, field)
		return n
	}
	for field := range im.gate {
		kind, sku, _ := strings.Cut(field, ":")
		switch kind {
		case "h", "p", "u", "held":
			require.Equal(e.t, want[field], number(field), "counter %s", field)
			delete(want, field)
		case "s":
			sum := number("s:"+sku) + number("h:"+sku) + number("p:"+sku)
			require.Equal(e.t, number("t:"+sku), sum, "SKU %s does not add up", sku)
		}
	}
	for field, n := range want {
		require.Zero(e.t, n, "counter %s is missing", field)
	}
	slices.Sort(unlanded)
	slices.Sort(ended)
	require.Equal(e.t, unlanded, append([]string(nil), im.unlanded...), "index of unlanded entries")
	require.Equal(e.t, ended, append([]string(nil), im.ended...), "index of ended entries")
	for user, record := range im.buyers {
		f := strings.Split(record, "|")
		require.Len(e.t, f, 3)
		require.Equal(e.t, strconv.FormatInt(units[user], 10), f[0], "units of buyer %s", user)
		require.ElementsMatch(e.t, held[user], splitIDs(f[1]), "held purchases of buyer %s", user)
		require.Subset(e.t, endedOf[user], splitIDs(f[2]), "ended purchases of buyer %s", user)
		require.LessOrEqual(e.t, len(splitIDs(f[2])), maxEnded)
	}
	for user := range held {
		require.Contains(e.t, im.buyers, user)
	}
	return im
}
