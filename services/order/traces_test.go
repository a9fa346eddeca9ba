package order_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

// The work done for a batch has spans in the trace of each sampled item, and later spans are their children.
func TestALandedBatchIsInTheTraceOfEachItem(t *testing.T) {
	t.Parallel()
	tel, recorder := telemetry.Recording()
	r := run(t, ordertest.MariaDB(t), func(_ *order.Config, d *order.Deps) { d.Telemetry = tel })
	var batch []contract.Deduction
	roots := map[string]trace.SpanContext{} // by order_sn
	for _, user := range []string{"u1", "u2", "u3"} {
		d := r.deduction(user)
		if user != "u3" { // u3 is not sampled
			ctx, root := tel.Tracer.Start(t.Context(), "purchase")
			d.Traceparent = telemetry.Traceparent(ctx)
			roots[d.OrderSN] = root.SpanContext()
			root.End()
		}
		batch = append(batch, d)
	}
	r.publish(batch...)
	eventually(t, func() bool { return len(r.events.all()) == 3 }, "all landed")
	eventually(t, func() bool { return len(named(recorder, "publish order-close")) == 2 }, "and their closing was published")
	eventually(t, func() bool { return len(named(recorder, "process inventory-deductions")) == 2 }, "and the handler was done")

	for _, e := range r.events.all() {
		root, sampled := roots[e.OrderSN]
		if !sampled {
			require.Empty(t, e.Traceparent)
			continue
		}
		process := only(t, recorder, root.TraceID(), "process inventory-deductions")
		require.Equal(t, root.SpanID(), process.Parent().SpanID())
		require.Equal(t, trace.SpanKindConsumer, process.SpanKind())
		publish := only(t, recorder, root.TraceID(), "publish order-events")
		require.Contains(t, e.Traceparent, publish.SpanContext().SpanID().String(),
			"the event's trace continues below the publishing")
		for _, name := range []string{"orders transaction", "publish order-events", "publish order-close"} {
			child := only(t, recorder, root.TraceID(), name)
			require.Equal(t, process.SpanContext().SpanID(), child.Parent().SpanID(), name)
		}
		system := ""
		for _, kv := range only(t, recorder, root.TraceID(), "orders transaction").Attributes() {
			if kv.Key == "db.system" {
				system = kv.Value.AsString()
			}
		}
		require.Equal(t, "mysql", system)
	}
}

// The buyer's payment, the provider's callback and their transactions are one trace. The event continues the trace of
// the purchase.
func TestPayingIsOneTrace(t *testing.T) {
	t.Parallel()
	tel, recorder := telemetry.Recording()
	r := run(t, ordertest.MariaDB(t), func(_ *order.Config, d *order.Deps) { d.Telemetry = tel })
	var purchase trace.SpanContext
	d := r.created("u1", func(d *contract.Deduction) {
		ctx, root := tel.Tracer.Start(t.Context(), "purchase")
		d.Traceparent, purchase = telemetry.Traceparent(ctx), root.SpanContext()
		root.End()
	})
	id := r.pay(d, "k")
	a := r.call("POST", "/v1/payments/"+id+"/sandbox", "u1", succeeded,
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, 202, a.status)
	require.Contains(t, a.header.Get("traceparent"), "0af7651916cd43dd8448eb211c80319c")
	eventually(t, func() bool { return len(r.events.all()) == 2 }, "created and paid")
	require.Contains(t, r.events.all()[1].Traceparent, purchase.TraceID().String())

	tid, err := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	require.NoError(t, err)
	var server, callback sdktrace.ReadOnlySpan
	eventually(t, func() bool {
		server, callback = nil, nil
		for _, s := range recorder.Ended() {
			if s.SpanContext().TraceID() != tid || s.SpanKind() != trace.SpanKindServer {
				continue
			}
			switch {
			case strings.HasSuffix(s.Name(), "/sandbox"):
				server = s
			case strings.HasSuffix(s.Name(), "/callbacks/{provider}"):
				callback = s
			}
		}
		return server != nil && callback != nil
	}, "both ended")
	ids := map[trace.SpanID]string{}
	for _, s := range recorder.Ended() {
		if s.SpanContext().TraceID() == tid {
			ids[s.SpanContext().SpanID()] = s.Name()
		}
	}
	require.Contains(t, ids, callback.Parent().SpanID(), "the parent span was exported")
	transaction := only(t, recorder, tid, "payment transaction")
	require.Equal(t, callback.SpanContext().SpanID(), transaction.Parent().SpanID())
}

func named(recorder *tracetest.SpanRecorder, name string) (found []sdktrace.ReadOnlySpan) {
	for _, s := range recorder.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	return found
}

func only(t *testing.T, recorder *tracetest.SpanRecorder, in trace.TraceID, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range named(recorder, name) {
		if s.SpanContext().TraceID() == in {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}
