package items_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/bus/items"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sent is a publisher that keeps all messages, and fails while err is set.
type sent struct {
	messages []bus.Message
	err      error
}

func (s *sent) Publish(_ context.Context, m bus.Message) error {
	if s.err != nil {
		return s.err
	}
	s.messages = append(s.messages, m)
	return nil
}

func event(orderSN, traceparent string) contract.OrderEvent {
	return contract.OrderEvent{
		OrderSN: orderSN, UserID: "u1", ActivityID: "1", Lines: []contract.Line{{SKUID: "1", Qty: 1}},
		Type: contract.OrderPaid, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Traceparent: traceparent,
	}
}

func TestEachItemKeepsItsOwnTrace(t *testing.T) {
	tel, recorder := telemetry.Recording()
	broker := &sent{}
	ctx := context.Background()
	var list []contract.OrderEvent
	var roots []trace.SpanContext
	for _, sn := range []string{"11", "12"} {
		buyer, end := tel.Span(ctx, "purchase", trace.SpanKindServer)
		roots = append(roots, trace.SpanContextFromContext(buyer))
		list = append(list, event(sn, telemetry.Traceparent(buyer)))
		end(nil)
	}
	list = append(list, event("13", "")) // not sampled

	require.NoError(t, items.Publish(ctx, broker, tel, contract.TopicOrderEvents, time.Time{}, list))
	require.Len(t, broker.messages, 1)
	require.Empty(t, broker.messages[0].Keys)
	one := &sent{}
	require.NoError(t, items.Publish(ctx, one, telemetry.Discard(t), contract.TopicOrderEvents, time.Time{}, list[:1]))
	require.Equal(t, []string{"11"}, one.messages[0].Keys)
	require.Equal(t, "11", list[0].OrderSN)
	require.NotEmpty(t, list[0].Traceparent, "the caller's items are left as they are")

	d := bus.Delivery{Message: broker.messages[0], Attempt: 1}
	_, got, bad, end := items.Open[contract.OrderEvent](ctx, tel, "group", d)
	end(nil)
	require.Empty(t, bad)
	require.Len(t, got, 3)
	require.Empty(t, got[2].Traceparent)

	spans := tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())
	for i, root := range roots {
		var publish, process *tracetest.SpanStub
		for k := range spans {
			if spans[k].SpanContext.TraceID() != root.TraceID() {
				continue
			}
			switch spans[k].Name {
			case "publish " + contract.TopicOrderEvents:
				publish = &spans[k]
			case "process " + contract.TopicOrderEvents:
				process = &spans[k]
			}
		}
		require.NotNil(t, publish)
		require.NotNil(t, process)
		require.Equal(t, root.SpanID(), publish.Parent.SpanID())
		require.Equal(t, publish.SpanContext.SpanID(), process.Parent.SpanID())
		require.Contains(t, got[i].Traceparent, process.SpanContext.SpanID().String())
	}
}

func TestBadItemDoesNotDelayOthers(t *testing.T) {
	tel := telemetry.Discard(t)
	broker := &sent{}
	require.NoError(t, items.Publish(context.Background(), broker, tel, contract.TopicOrderEvents, time.Time{},
		[]contract.OrderEvent{event("11", ""), {OrderSN: "12"}}))
	d := bus.Delivery{Message: broker.messages[0]}
	_, got, bad, end := items.Open[contract.OrderEvent](context.Background(), tel, "group", d)
	end(nil)
	require.Len(t, got, 1)
	require.Len(t, bad, 1)
}

func TestMessageBounds(t *testing.T) {
	broker := &sent{}
	list := make([]contract.OrderEvent, contract.MaxItems+1)
	for i := range list {
		list[i] = event("11", "")
	}
	at := time.Now().Add(time.Hour)
	require.NoError(t, items.Publish(context.Background(), broker, telemetry.Discard(t), contract.TopicOrderEvents, at, list))
	require.Len(t, broker.messages, 2)
	for _, m := range broker.messages {
		require.Equal(t, at, m.DeliverAt)
	}
}

func TestPublishReturnsTheBrokersError(t *testing.T) {
	broker := &sent{err: errors.New("unavailable")}
	err := items.Publish(context.Background(), broker, telemetry.Discard(t), contract.TopicOrderEvents, time.Time{},
		[]contract.OrderEvent{event("11", "")})
	require.ErrorIs(t, err, broker.err)
}
