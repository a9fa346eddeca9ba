package rocketmq

import (
	"context"
	"crypto/rand"
	"flag"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/bustest"
	"flashsale.internal/pkg/lifecycle"
)

// The client library has data races and leaves goroutines behind, so this package is tested without -race and goleak.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // these tests mostly wait
		panic(err)
	}
	os.Exit(m.Run())
}

// testLog returns a logger that does not use testing.T, because goroutines of the client outlive tests.
func testLog() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }

func TestConformance(t *testing.T) {
	for _, c := range bustest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig(t)
			makeTopics(t, cfg, bustest.Topic, bustest.GroupA, bustest.GroupB)
			c.Run(t, bustest.Broker{
				MayRedeliverAfterClose: true, // the client sends offsets without a response, and disconnects
				Join:                   func(t *testing.T) bus.Bus { return newBus(t, cfg) },
				JoinWithShortPauses: func(t *testing.T) bus.Bus {
					b := newBus(t, cfg)
					b.tune = func(s *subscription) {
						s.retryLevel = func(int) int { return 1 } // 1 s
						s.retries = newRetries(200*time.Millisecond, 400*time.Millisecond)
					}
					return b
				},
			})
		})
	}
}

// testConfig returns the configuration of the broker that scripts/dev or the environment provides. Its prefix
// separates the test from other users of the broker.
func testConfig(t *testing.T) Config {
	t.Helper()
	addrs := "127.0.0.1:19876"
	if s := os.Getenv("ROCKETMQ_NAMESRV"); s != "" {
		addrs = s
	}
	cfg := Config{NameServers: strings.Split(addrs, ","), Prefix: "t" + rand.Text()[:10] + "-"}
	conn, err := net.DialTimeout("tcp", cfg.NameServers[0], time.Second)
	require.NoErrorf(t, err, "No RocketMQ name server listens at %s: run 'make test', which starts one.", addrs)
	require.NoError(t, conn.Close())
	return cfg
}

var testIncidents = noop.Int64Counter{}

func testAccess() *lifecycle.Access {
	return lifecycle.NewAccess("rocketmq", "", slog.New(slog.DiscardHandler), testIncidents)
}

func newBus(t *testing.T, cfg Config) *Bus {
	t.Helper()
	b, err := New(cfg, testLog().With("test", t.Name()))
	require.NoError(t, err)
	return b
}

// makeTopics creates a topic and its groups, and deletes them after the test.
func makeTopics(t *testing.T, cfg Config, topic string, groups ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, EnsureTopics(ctx, cfg, []string{topic}, groups))
	t.Cleanup(func() {
		deleteTopic(t, cfg, cfg.Prefix+topic)
		for _, g := range groups {
			deleteTopic(t, cfg, retryTopic(cfg.Prefix+g))
		}
	})
}

func deleteTopic(t *testing.T, cfg Config, topic string) {
	const requestDeleteInBroker, requestDeleteInNameServer = 215, 216
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conns := newConnections(cfg)
	defer conns.close()
	found, err := conns.route(ctx, cfg.NameServers, topic)
	if err != nil {
		t.Logf("topic %s stays: %v", topic, err)
		return
	}
	for _, s := range found {
		_, err = conns.request(ctx, s.addr, requestDeleteInBroker, map[string]string{"topic": topic}, nil)
		require.NoError(t, err)
	}
	for _, addr := range cfg.NameServers {
		_, err = conns.request(ctx, addr, requestDeleteInNameServer, map[string]string{"topic": topic}, nil)
		require.NoError(t, err)
	}
}
