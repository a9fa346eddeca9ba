package rocketmq

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/porttest"
)

// listingBroker is a name server and a broker at one address. It lists one consumer in every group. As a broker with an
// ACL does, it denies what acl refuses; a name server has none.
type listingBroker struct {
	listener net.Listener
	consumer string
	acl      atomic.Pointer[acl] // nil: everything is let in
	unknown  []string            // topics without a route

	mu   sync.Mutex
	open []net.Conn
}

func newListingBroker(t *testing.T, consumer string) *listingBroker {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &listingBroker{listener: listener, consumer: consumer}
	served := make(chan struct{})
	go func() {
		defer close(served)
		b.accept()
	}()
	t.Cleanup(func() {
		assert.NoError(t, listener.Close())
		<-served
		b.restart()
	})
	return b
}

func (b *listingBroker) addr() string { return b.listener.Addr().String() }

// restart closes all connections, as a process does that is killed and back at once.
func (b *listingBroker) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.open {
		_ = conn.Close() // the other side may have closed it
	}
	b.open = nil
}

func (b *listingBroker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.open = append(b.open, conn)
		b.mu.Unlock()
		go b.respond(conn)
	}
}

func (b *listingBroker) respond(conn net.Conn) {
	requests := &connection{conn: conn}
	for {
		request, sent, err := requests.read()
		if err != nil {
			return
		}
		answer := command{Opaque: request.Opaque, Flag: responseFlag}
		body := fmt.Sprintf(`{"consumerIdList":[%q]}`, b.consumer)
		if request.Code == requestRoute && slices.Contains(b.unknown, request.ExtFields["topic"]) {
			answer.Code, body = responseNoTopic, ""
		} else if request.Code == requestRoute {
			body = fmt.Sprintf(`{"queueDatas":[{"brokerName":"a","readQueueNums":4,"writeQueueNums":4,"perm":6}],
				"brokerDatas":[{"brokerName":"a","brokerAddrs":{"0":%q}}]}`, b.addr())
		} else if refused := b.acl.Load().refuses(request, sent); refused != "" {
			answer.Code, answer.Remark, body = responseDenied, refused, ""
		}
		header, err := json.Marshal(answer)
		if err != nil {
			return
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)+len(body)))
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
		if _, err := conn.Write(append(append(frame, header...), body...)); err != nil {
			return
		}
	}
}

// A name server that refuses every connection is waited for until the consumer ends, and the log names it.
func TestAConsumerSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := make(chan string, 8)
	address := porttest.Refusing(t)
	monitor := &routeMonitor{
		nameServers: []string{address}, topic: "t", group: "g", connections: newConnections(Config{}), access: testAccess(),
		log: slog.New(slog.NewTextHandler(lines(waits), nil)),
	}
	defer monitor.connections.close()
	ended := make(chan error, 1)
	go func() {
		_, err := monitor.ready(ctx)
		ended <- err
	}()
	line := <-waits
	assert.Contains(t, line, "contact with RocketMQ failed, will retry")
	assert.Contains(t, line, address)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// lines receives what is written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A broker that is killed and listens again before the next check lists the consumer as soon as it has received a
// heartbeat. The consumer's requests to the killed process would still wait until their time-out.
func TestARestartBetweenTwoChecksIsNoticed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	broker := newListingBroker(t, "127.0.0.1@this")
	monitor := &routeMonitor{
		nameServers: []string{broker.addr()}, topic: "t", group: "g", connections: newConnections(Config{}), access: testAccess(),
		log: slog.New(slog.DiscardHandler),
	}
	defer monitor.connections.close()
	built, err := monitor.ready(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{broker.addr()}, built.alive)

	again, consumers, err := monitor.check(ctx, &built)
	require.NoError(t, err)
	assert.Equal(t, built, again, "nothing has changed")
	assert.Equal(t, []string{"127.0.0.1@this"}, consumers)

	broker.restart()
	require.ErrorContains(t, monitor.watch(ctx, built, "this"), "a connection to a broker was lost")
}
