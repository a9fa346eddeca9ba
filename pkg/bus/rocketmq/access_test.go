package rocketmq

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/lifecycle"
)

// acl is the one user of a broker: its name, its key and its rights, such as "Sub Topic:t".
type acl struct {
	user, key string
	rights    []string
}

// refuses returns the remark of a broker's refusal, or nothing.
func (a *acl) refuses(request command, body []byte) string {
	if a == nil {
		return ""
	}
	fields := maps.Clone(request.ExtFields)
	user, signature := fields["AccessKey"], fields["Signature"]
	delete(fields, "Signature")
	text := ""
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text += fields[name]
	}
	mac := hmac.New(sha1.New, []byte(a.key))
	mac.Write(append([]byte(text), body...))
	switch {
	case user == "":
		return "username cannot be null."
	case user != a.user:
		return "User:" + user + " is not found."
	case signature != base64.StdEncoding.EncodeToString(mac.Sum(nil)):
		return "check signature failed."
	}
	for _, right := range needed(request) {
		if !slices.Contains(a.rights, right) {
			_, resource, _ := strings.Cut(right, " ")
			return "User:" + user + " has no permission to access " + resource + " from 127.0.0.1, no matched policies."
		}
	}
	return ""
}

// needed returns the rights that a broker checks.
func needed(request command) []string {
	f := request.ExtFields
	switch request.Code {
	case requestSend:
		return []string{"Pub Topic:" + f["topic"]}
	case 310: // a message of the client library, with short names
		return []string{"Pub Topic:" + f["b"]}
	case requestOffset:
		return []string{"Sub Topic:" + f["topic"], "Sub Group:" + f["consumerGroup"]}
	case requestConsumers:
		return []string{"Sub Group:" + f["consumerGroup"]}
	case requestCreateTopic:
		if group, ok := strings.CutPrefix(f["topic"], retryTopic("")); ok {
			return []string{"Create Group:" + group}
		}
		return []string{"Create Topic:" + f["topic"]}
	}
	return nil
}

// The vectors are of another program.
func TestSignature(t *testing.T) {
	fields := map[string]string{"consumerGroup": "s-order-deductions", "topic": "s-inventory-deductions", "queueId": "0"}
	got := sign(primitive.Credentials{AccessKey: "order", SecretKey: "order-secret"}, fields, nil)
	assert.Equal(t, "0V7kP+MJQBOYW364LG5UbQ+rKcE=", got["Signature"])
	assert.Equal(t, "order", got["AccessKey"])
	assert.Len(t, fields, 3, "those of a repeated request")
	got = sign(primitive.Credentials{AccessKey: "seckill", SecretKey: "hush"},
		map[string]string{"topic": "t", "a": "1", "Z": "9"}, []byte("body"))
	assert.Equal(t, "BcNHdgq0MlKD3/i87Yk0BjrrUrg=", got["Signature"])
}

// logged is a log that goroutines may write to while the test reads it.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// denials are users that may not do everything, and what the broker then states.
func denials(right ...string) map[string]struct {
	cfg    Config
	states string
} {
	type of = struct {
		cfg    Config
		states string
	}
	all := map[string]of{
		"no credentials": {Config{}, "username cannot be null."},
		"wrong key":      {Config{AccessKey: "user", SecretKey: "other"}, "check signature failed."},
		"unknown user":   {Config{AccessKey: "stranger", SecretKey: "key"}, "User:stranger is not found."},
	}
	for _, r := range right {
		all["without "+r] = of{Config{AccessKey: "user", SecretKey: "key"}, "no permission to access " + r + " from"}
	}
	return all
}

// A consumer that the broker denies waits without a consumer object, states why, and begins when it may.
func TestADeniedConsumerWaits(t *testing.T) {
	t.Parallel()
	all := []string{"Sub Topic:t", "Sub Group:g"}
	for name, d := range denials("Topic:t", "Group:g") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			broker := newListingBroker(t, "127.0.0.1@this")
			some := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return "without "+r[len("Sub "):] == name })
			broker.acl.Store(&acl{"user", "key", some})
			var out logged
			log := slog.New(slog.NewTextHandler(&out, nil))
			access := lifecycle.NewAccess("rocketmq", "", log, testIncidents)
			monitor := &routeMonitor{
				nameServers: []string{broker.addr()}, topic: "t", group: "g", connections: newConnections(d.cfg),
				access: access, log: log,
			}
			defer monitor.connections.close()
			v, _, err := monitor.check(ctx, nil)
			require.NoError(t, err)
			require.ErrorIs(t, v.denied, ErrDenied)
			require.Empty(t, v.alive, "not one that has no consumer")
			require.ErrorContains(t, access.Ready(), "rocketmq denies access: ")
			require.ErrorContains(t, access.Ready(), d.states)
			ready := make(chan view, 1)
			go func() {
				v, _ := monitor.ready(ctx)
				ready <- v
			}()
			require.Eventually(t, func() bool { return strings.Contains(out.String(), "contact with RocketMQ failed") },
				10*time.Second, time.Millisecond)
			assert.Equal(t, 1, strings.Count(out.String(), `level=ERROR msg="rocketmq denies access"`))
			assert.Contains(t, out.String(), d.states)
			if d.cfg.AccessKey == "" {
				broker.acl.Store(nil)
			} else {
				broker.acl.Store(&acl{d.cfg.AccessKey, d.cfg.SecretKey, all})
			}
			built := <-ready
			require.Equal(t, []string{broker.addr()}, built.alive)

			broker.acl.Store(&acl{"user", "replaced", all})
			require.ErrorContains(t, monitor.watch(ctx, built, "this"), "the reachable brokers changed")
			require.Error(t, access.Ready())
		})
	}
}

// A denied message fails at once with the broker's text. A bus states so before it has sent one.
func TestADeniedPublisherIsNotReady(t *testing.T) {
	t.Parallel()
	for name, d := range denials("Topic:t") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := newListingBroker(t, "127.0.0.1@this")
			broker.acl.Store(&acl{"user", "key", nil})
			var out logged
			cfg := d.cfg
			cfg.NameServers, cfg.Publishes = []string{broker.addr()}, []string{"t"}
			b, err := New(cfg, slog.New(slog.NewTextHandler(&out, nil)))
			require.NoError(t, err)
			require.Eventually(t, func() bool { return b.Ready() != nil }, 10*time.Second, time.Millisecond)
			require.ErrorContains(t, b.Ready(), "rocketmq denies access: publish to t: ")
			require.ErrorContains(t, b.Ready(), d.states)
			began := time.Now()
			err = b.Publish(t.Context(), bus.Message{Topic: "t"})
			require.ErrorIs(t, err, ErrDenied)
			require.ErrorContains(t, err, d.states)
			assert.Less(t, time.Since(began), Config{}.withDefaults().PublishTimeout)
			assert.Equal(t, 1, strings.Count(out.String(), `level=ERROR msg="rocketmq denies access"`), out.String())
			if d.cfg.AccessKey == "" {
				broker.acl.Store(nil)
			} else {
				broker.acl.Store(&acl{d.cfg.AccessKey, d.cfg.SecretKey, []string{"Pub Topic:t"}})
			}
			<-b.checked
			require.NoError(t, b.Close(t.Context()))
		})
	}
}

// EnsureTopics ends at a denial with the rights that are needed, instead of repeating it for its whole time.
func TestEnsureTopicsEndsAtADenial(t *testing.T) {
	t.Parallel()
	for name, d := range denials("Topic:s-missing", "Group:s-g") {
		broker := newListingBroker(t, "127.0.0.1@this")
		broker.acl.Store(&acl{"user", "key", []string{"Create Topic:s-t"}})
		topics := []string{}
		if strings.HasSuffix(name, "Topic:s-missing") {
			topics = []string{"missing"}
		}
		broker.unknown = []string{"s-missing", retryTopic("s-g")}
		cfg := d.cfg
		cfg.NameServers, cfg.Prefix = []string{broker.addr()}, "s-"
		groups := []string{"g"}
		if len(topics) > 0 {
			groups = nil
		}
		err := EnsureTopics(t.Context(), cfg, topics, groups)
		require.ErrorIs(t, err, ErrDenied, name)
		require.ErrorContains(t, err, "needs the right Create on Topic:s-* and Group:s-*", name)
		require.ErrorContains(t, err, d.states, name)
	}
}

// Check names the right to publish or to consume that is missing.
func TestCheckReportsDenials(t *testing.T) {
	t.Parallel()
	broker := newListingBroker(t, "127.0.0.1@this")
	cfg := Config{NameServers: []string{broker.addr()}, Publishes: []string{"t"}, AccessKey: "user", SecretKey: "key"}
	consumes := map[string]string{"g": "c"}
	all := []string{"Pub Topic:t", "Sub Topic:c", "Sub Group:g"}
	for i, right := range all {
		broker.acl.Store(&acl{"user", "key", slices.Delete(slices.Clone(all), i, i+1)})
		err := Check(t.Context(), cfg, consumes)
		require.ErrorIs(t, err, ErrDenied)
		_, resource, _ := strings.Cut(right, " ")
		require.ErrorContains(t, err, "no permission to access "+resource)
	}
	broker.acl.Store(&acl{"user", "key", all})
	require.NoError(t, Check(t.Context(), cfg, consumes))
	broker.unknown = []string{"c"}
	require.ErrorIs(t, Check(t.Context(), cfg, consumes), errNoTopic)
	cfg.NameServers = append(cfg.NameServers, "127.0.0.1:1")
	require.ErrorContains(t, Check(t.Context(), cfg, consumes), "list brokers: no name server responds")
}
