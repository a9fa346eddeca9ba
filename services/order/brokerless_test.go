package order_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

// broken is a bus that takes no messages while it is broken.
type broken struct {
	bus.Bus
	working atomic.Bool
}

func (b *broken) Publish(ctx context.Context, m bus.Message) error {
	if !b.working.Load() {
		return errors.New("broker is down")
	}
	return b.Bus.Publish(ctx, m)
}

// inventory is the internal listener of inventory. It records the messages that it gets.
type inventory struct {
	url  string
	down atomic.Bool

	mu     sync.Mutex
	bodies map[string][][]byte // by topic
}

func newInventory(t *testing.T) *inventory {
	t.Helper()
	i := &inventory{bodies: map[string][][]byte{}}
	server := httptest.NewServer(auth.Internal(settings.DevelopmentInternalSecret)(http.HandlerFunc(i.receive)))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *inventory) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || i.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	topic := strings.TrimPrefix(r.URL.Path, contract.MessagesPath)
	i.bodies[topic] = append(i.bodies[topic], body)
	w.WriteHeader(http.StatusNoContent)
}

// events returns the steps of the order that inventory got by calls.
func (i *inventory) events(sn string) map[contract.OrderEventType]bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	steps := map[contract.OrderEventType]bool{}
	for _, body := range i.bodies[contract.TopicOrderEvents] {
		events, _ := contract.Decode[contract.OrderEvent](body)
		for _, e := range events {
			if e.OrderSN == sn {
				steps[e.Type] = true
			}
		}
	}
	return steps
}

// closings returns how many closings of the order inventory got by calls.
func (i *inventory) closings(sn string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, body := range i.bodies[contract.TopicOrderClose] {
		closings, _ := contract.Decode[contract.OrderClose](body)
		for _, c := range closings {
			for _, other := range c.OrderSNs {
				if other == sn {
					n++
				}
			}
		}
	}
	return n
}

// post posts a deduction to the order service as inventory does, and returns the status of the response.
func (r *running) post(d contract.Deduction) int {
	r.t.Helper()
	bodies, err := contract.Encode([]contract.Deduction{d})
	require.NoError(r.t, err)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost,
		r.internal+contract.MessagesPath+contract.TopicDeductions, strings.NewReader(string(bodies[0])))
	require.NoError(r.t, err)
	auth.SignInternal(req, settings.DevelopmentInternalSecret)
	return r.do(req).status
}

// land posts a deduction until it is handled.
func (r *running) land(d contract.Deduction) {
	r.t.Helper()
	eventually(r.t, func() bool { return r.post(d) == http.StatusNoContent }, "the deduction is handled")
}

// The brokerless twin of TestABrokerThatLosesConfirmations: without a broker, orders are created, paid and closed, and
// events of the outbox reach inventory.
func TestWithoutABroker(t *testing.T) {
	t.Parallel()
	to := newInventory(t)
	var broker *broken
	r := run(t, ordertest.MariaDB(t), func(c *order.Config, d *order.Deps) {
		c.InventoryURL, c.Brokerless.After = to.url, 300*time.Millisecond
		c.TestTimers["order.sweep_every"], c.TestTimers["order.sweep_after"] = 100*time.Millisecond, time.Hour
		broker = &broken{Bus: d.Bus}
		d.Bus = broker
	})

	paid := r.deduction("u1")
	to.down.Store(true) // a message that cannot be passed on is not handled, and is repeated
	eventually(t, func() bool { return r.post(paid) != http.StatusNotFound }, "the service has begun to consume")
	require.Equal(t, http.StatusServiceUnavailable, r.post(paid))
	to.down.Store(false)
	r.land(paid)
	require.True(t, to.events(paid.OrderSN)[contract.OrderCreated], "published before the message counts as handled")
	id := r.pay(paid, "k")
	require.Equal(t, 202, r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded).status)
	eventually(t, func() bool { return to.events(paid.OrderSN)[contract.OrderPaid] }, "the outbox is published by calls")

	unpaid := r.deduction("u2")
	unpaid.PayWithinS = 1
	r.land(unpaid)
	eventually(t, func() bool { return to.closings(unpaid.OrderSN) > 0 },
		"the sweep closes an overdue order long before it counts as lost")

	broker.working.Store(true)
	late := r.deduction("u3")
	eventually(t, func() bool {
		late = r.deduction("u3")
		r.land(late)
		return len(r.events.all()) > 0
	}, "the broker is used again")
	for _, e := range r.events.all() {
		require.NotEqual(t, unpaid.OrderSN, e.OrderSN, "nothing is published again")
	}
}
