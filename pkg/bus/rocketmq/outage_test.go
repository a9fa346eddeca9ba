package rocketmq

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/porttest"
)

const (
	resumeWithin  = 5 * time.Second // from a visible route until messages are published and consumed
	startPatience = 2 * time.Minute // for the start of a JVM on a loaded machine
	// The broker may list a replaced consumer for two minutes (see settleTime), and the queues are shared anew every 20 s.
	lostAfter = 4 * time.Minute
)

// dependencies are a name server and a broker of one test, which the test may kill. newDependencies does not start
// them.
type dependencies struct {
	dir    string
	offset int
	cfg    Config
}

func newDependencies(t *testing.T) *dependencies {
	t.Helper()
	const namesrv, broker = 19876, 20911 // of scripts/dev/env
	offset := 0
	for free, tries := false, 0; !free; tries++ {
		require.Less(t, tries, 1000, "no free ports")
		offset, free = 1000+rand.IntN(6500), true // below the ports of porttest.Free
		for _, port := range []int{namesrv, broker - 2, broker, broker + 1} {
			free = free && porttest.Take(t, port+offset)
		}
	}
	p := &dependencies{
		dir: t.TempDir(), offset: offset,
		cfg: Config{NameServers: []string{fmt.Sprintf("127.0.0.1:%d", namesrv+offset)}},
	}
	t.Cleanup(func() { p.do(t, "kill", "namesrv", "broker") })
	return p
}

// do runs scripts/dev/dependencies.
func (p *dependencies) do(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	script, err := filepath.Abs("../../../scripts/dev/dependencies")
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, script, args...)
	cmd.Env = append(os.Environ(), "RUN_DIR="+p.dir, "PORT_OFFSET="+strconv.Itoa(p.offset))
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "scripts/dev/dependencies %s: %s", strings.Join(args, " "), out)
}

// signal sends a signal to one of the processes.
func (p *dependencies) signal(t *testing.T, name string, s syscall.Signal) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name+".pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, s))
}

func (p *dependencies) hasRoute(ctx context.Context) bool {
	conns := newConnections(p.cfg)
	defer conns.close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := conns.route(ctx, p.cfg.NameServers, "traffic")
	return err == nil
}

// traffic publishes messages one by one, and records which were confirmed and which consumed.
type traffic struct {
	bus         *Bus
	confirmed   sync.Map // number -> true
	consumed    sync.Map
	published   atomic.Int64 // time of the last confirmation, unix ns
	handled     atomic.Int64
	redelivered atomic.Int64 // deliveries of messages that were already consumed
	stop        context.CancelFunc
	done        chan struct{}
}

func (tr *traffic) handle(_ context.Context, d bus.Delivery) error {
	if _, known := tr.consumed.LoadOrStore(string(d.Body), true); known {
		tr.redelivered.Add(1)
	}
	tr.handled.Store(time.Now().UnixNano())
	return nil
}

func (tr *traffic) run(ctx context.Context) {
	defer close(tr.done)
	for n := 0; ctx.Err() == nil; n++ {
		body := strconv.Itoa(n)
		if tr.bus.Publish(ctx, bus.Message{Topic: "traffic", Body: []byte(body)}) == nil {
			tr.confirmed.Store(body, true)
			tr.published.Store(time.Now().UnixNano())
		}
		if pause(ctx, 5*time.Millisecond) != nil {
			return
		}
	}
}

func startTraffic(t *testing.T, cfg Config) *traffic {
	t.Helper()
	tr := &traffic{bus: newBus(t, cfg), done: make(chan struct{})}
	require.NoError(t, tr.bus.Subscribe(bus.Subscription{Topic: "traffic", Group: "traffic"}, tr.handle))
	var ctx context.Context
	ctx, tr.stop = context.WithCancel(context.Background())
	go tr.run(ctx)
	return tr
}

// resumption holds the times at which traffic resumed after an outage.
type resumption struct {
	at                  time.Time     // when the name server had the route of the topic
	published, consumed time.Duration // from then to the first confirmation and to the first handler call
}

func (r resumption) String() string {
	return fmt.Sprintf("from route visible to publish %v, to consume %v", r.published, r.consumed)
}

// resumes waits in the background for the route and then for the traffic.
func (tr *traffic) resumes(t *testing.T, p *dependencies) <-chan resumption {
	t.Helper()
	result := make(chan resumption, 1)
	go func() {
		for t.Context().Err() == nil && !p.hasRoute(t.Context()) {
			time.Sleep(10 * time.Millisecond)
		}
		r := resumption{at: time.Now()}
		for t.Context().Err() == nil && (r.published <= 0 || r.consumed <= 0) {
			if r.published <= 0 {
				r.published = time.Unix(0, tr.published.Load()).Sub(r.at)
			}
			if r.consumed <= 0 {
				r.consumed = time.Unix(0, tr.handled.Load()).Sub(r.at)
			}
			time.Sleep(time.Millisecond)
		}
		result <- r
	}()
	return result
}

// soon receives the result and checks that publishing and consuming resumed within resumeWithin.
func soon(t *testing.T, result <-chan resumption) resumption {
	t.Helper()
	select {
	case r := <-result:
		assert.Less(t, r.published, resumeWithin, "publishing")
		assert.Less(t, r.consumed, resumeWithin, "consuming")
		return r
	case <-time.After(startPatience):
		require.Fail(t, "the traffic did not resume")
		return resumption{}
	}
}

// end stops publishing and waits until every confirmed message is consumed.
func (tr *traffic) end(t *testing.T) {
	t.Helper()
	tr.stop()
	<-tr.done
	all := 0
	require.Eventually(t, func() bool {
		lost := 0
		all = 0
		tr.confirmed.Range(func(body, _ any) bool {
			all++
			if _, ok := tr.consumed.Load(body); !ok {
				lost++
			}
			return true
		})
		return lost == 0
	}, lostAfter, 50*time.Millisecond, "a confirmed message was lost")
	t.Logf("%d messages confirmed and consumed, %d deliveries more than one", all, tr.redelivered.Load())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	assert.NoError(t, tr.bus.Close(ctx))
}

func TestOutages(t *testing.T) {
	t.Parallel()
	p := newDependencies(t)
	tr := startTraffic(t, p.cfg) // nothing is there yet
	started := make(chan error, 1)
	go func() { started <- EnsureTopics(t.Context(), p.cfg, []string{"traffic"}, []string{"traffic"}) }()
	require.Eventually(t, func() bool {
		return tr.bus.Publish(t.Context(), bus.Message{Topic: "traffic"}) != nil
	}, 30*time.Second, time.Millisecond)

	resumed := tr.resumes(t, p)
	p.do(t, "up", "namesrv", "broker")
	require.NoError(t, <-started)
	t.Logf("first start: %v", soon(t, resumed))

	for range 2 {
		p.do(t, "kill", "broker")
		killed := time.Now()
		require.Eventually(t, func() bool { return !p.hasRoute(t.Context()) }, startPatience, 10*time.Millisecond)
		resumed = tr.resumes(t, p)
		p.do(t, "up", "broker")
		r := soon(t, resumed)
		t.Logf("broker killed, back after %v: %v", r.at.Sub(killed), r)
	}

	p.signal(t, "broker", syscall.SIGSTOP) // accepts connections, never responds
	time.Sleep(12 * time.Second)           // the length of the outage
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	began := time.Now()
	require.ErrorIs(t, tr.bus.Publish(ctx, bus.Message{Topic: "traffic"}), context.DeadlineExceeded)
	cancel()
	assert.Less(t, time.Since(began), Config{}.withDefaults().PublishTimeout)
	p.signal(t, "broker", syscall.SIGCONT)
	t.Logf("broker silent for 12 s: %v", soon(t, tr.resumes(t, p)))

	p.do(t, "kill", "namesrv") // clients that have a route continue
	count := func() (n int) {
		tr.confirmed.Range(func(_, _ any) bool { n++; return true })
		return n
	}
	before := count()
	require.Eventually(t, func() bool { return count() > before+100 }, resumeWithin*2, 10*time.Millisecond)
	p.do(t, "up", "namesrv")
	soon(t, tr.resumes(t, p))

	tr.end(t)
}

// With a name server that accepts connections and never responds, each send of the client takes 24 s.
func TestSilentNameServerBlocksNoCaller(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()

	const sends = 3
	cfg := Config{NameServers: []string{listener.Addr().String()}, MaxSends: sends, PublishTimeout: 500 * time.Millisecond}
	b := newBus(t, cfg)
	accept := func(context.Context, bus.Delivery) error { return nil }
	require.NoError(t, b.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
	const callers = 10
	failed := make(chan error, callers)
	for range callers {
		go func() { failed <- b.Publish(t.Context(), bus.Message{Topic: "t"}) }()
	}
	limit := time.After(2 * time.Second)
	for range callers {
		select {
		case err := <-failed:
			require.ErrorContains(t, err, "no response in time")
		case <-limit:
			require.Fail(t, "a caller was blocked")
		}
	}
	assert.Len(t, b.sender.slots, sends, "sends in flight, all of them stuck")

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	require.ErrorIs(t, b.Close(ctx), context.DeadlineExceeded)
	assert.Less(t, time.Since(began), 2*time.Second)
	require.ErrorIs(t, b.Publish(t.Context(), bus.Message{Topic: "t"}), bus.ErrClosed)
}

func TestPublishWithoutNameServerFailsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBus(t, Config{NameServers: []string{porttest.Refusing(t)}})
	began := time.Now()
	err := b.Publish(t.Context(), bus.Message{Topic: "t"})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "no response in time")
	assert.Less(t, time.Since(began), Config{}.withDefaults().PublishTimeout)
	require.NoError(t, b.Close(t.Context()))
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no name server": {},
		"no port":        {NameServers: []string{"namesrv"}},
		"a URL":          {NameServers: []string{"http://namesrv:9876"}},
		"a blank":        {NameServers: []string{""}},
		"negative":       {NameServers: []string{"namesrv:9876"}, MaxSends: -1},
	} {
		_, err := New(cfg, testLog())
		require.Error(t, err, name)
		require.Error(t, EnsureTopics(t.Context(), cfg, nil, nil), name)
	}
}
