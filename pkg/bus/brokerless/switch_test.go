package brokerless_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/bus"
)

// A process learns that messages have become calls from its own messages.
func TestTheSwitchToCallsWakesItsReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		d := newSelf(t, b, 10*time.Second)
		require.NoError(t, d.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
		first, second := d.Switched(), d.Switched()
		publish := func() error { return d.Publish(t.Context(), bus.Message{Topic: "t"}) }

		b.down.Store(true)
		for publish() != nil {
			require.Zero(t, d.BrokerlessFor())
			require.Empty(t, first)
			time.Sleep(time.Second)
		}
		require.Positive(t, d.BrokerlessFor())
		require.Len(t, first, 1)
		require.Len(t, second, 1)
		<-first
		for range 5 {
			time.Sleep(time.Second)
			require.NoError(t, publish())
		}
		require.Equal(t, 5*time.Second, d.BrokerlessFor())
		require.Empty(t, first, "it wakes once")

		b.down.Store(false)
		for d.Breaker() != "closed" {
			time.Sleep(time.Second)
			require.NoError(t, publish())
		}
		require.Zero(t, d.BrokerlessFor())
		b.down.Store(true)
		for publish() != nil {
			time.Sleep(time.Second)
		}
		require.Len(t, first, 1, "and again with the next switch")
	})
}

// A process that publishes nothing learns it from messages that arrive by calls.
func TestAMessageThatArrivedByACallWakesReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSelf(t, newBroker(), 10*time.Second)
		require.NoError(t, d.Subscribe(bus.Subscription{Topic: "t", Group: "g"}, accept))
		woken := d.Switched()
		arrive := func() {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
			d.Listener().ServeHTTP(httptest.NewRecorder(), r)
		}
		require.Zero(t, d.BrokerlessFor())
		for range 3 {
			arrive()
			require.Positive(t, d.BrokerlessFor())
			time.Sleep(5 * time.Second)
		}
		require.Equal(t, 15*time.Second, d.BrokerlessFor())
		require.Len(t, woken, 1)
		<-woken
		time.Sleep(5 * time.Second)
		require.Zero(t, d.BrokerlessFor(), "no sender lacks the broker any more")
		arrive()
		require.Len(t, woken, 1)
	})
}
