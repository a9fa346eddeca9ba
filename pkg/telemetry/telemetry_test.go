package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"flashsale.internal/pkg/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clean unsets the OTEL_* variables of this machine and sets the given ones.
func clean(t *testing.T, set ...string) {
	t.Helper()
	for _, name := range []string{
		"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
		"OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_INSECURE",
	} {
		t.Setenv(name, "")
	}
	for _, s := range set {
		name, value, _ := strings.Cut(s, "=")
		t.Setenv(name, value)
	}
}

func setup(t *testing.T, o Options) *Telemetry {
	t.Helper()
	if o.LogWriter == nil {
		o.LogWriter = io.Discard
	}
	tel, err := Setup(context.Background(), "shop", "v1", o)
	require.NoError(t, err)
	return tel
}

func page(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, 200, w.Code)
	return w.Body.String()
}

// collector receives spans over both transports.
type collector struct {
	coltrace.UnimplementedTraceServiceServer
	requests chan *coltrace.ExportTraceServiceRequest
}

func (c *collector) Export(_ context.Context, r *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	c.requests <- r
	return &coltrace.ExportTraceServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req coltrace.ExportTraceServiceRequest
	if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.requests <- &req
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func TestSpansAreExportedOverBothTransports(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			c := &collector{requests: make(chan *coltrace.ExportTraceServiceRequest, 4)}
			var endpoint string
			if protocol == "grpc" {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				server := grpc.NewServer()
				coltrace.RegisterTraceServiceServer(server, c)
				done := make(chan error, 1)
				go func() { done <- server.Serve(l) }()
				t.Cleanup(func() { server.Stop(); <-done })
				endpoint = "http://" + l.Addr().String()
			} else {
				server := httptest.NewServer(c)
				t.Cleanup(server.Close)
				endpoint = server.URL
			}
			clean(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol,
				"OTEL_SERVICE_NAME=renamed", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
			tel := setup(t, Options{})
			_, end := tel.Span(context.Background(), "work", trace.SpanKindInternal)
			end(nil)
			require.NoError(t, tel.Shutdown(context.Background()))
			select {
			case r := <-c.requests:
				require.Equal(t, "work", r.ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
				attrs := map[string]string{}
				for _, kv := range r.ResourceSpans[0].Resource.Attributes {
					attrs[kv.Key] = kv.Value.GetStringValue()
				}
				require.Equal(t, "renamed", attrs["service.name"])
				require.Equal(t, "v1", attrs["service.version"])
				require.Equal(t, "test", attrs["deployment.environment.name"])
			case <-time.After(5 * time.Second):
				t.Fatal("nothing exported")
			}
		})
	}
}

func TestWithoutAnEndpointThereAreIDsButNoExports(t *testing.T) {
	clean(t)
	var log bytes.Buffer
	tel := setup(t, Options{LogWriter: &log})
	ctx, end := tel.Span(context.Background(), "work", trace.SpanKindInternal)
	require.True(t, trace.SpanContextFromContext(ctx).IsValid())
	require.Empty(t, Traceparent(ctx))
	tel.Log.InfoContext(ctx, "hello")
	tel.Log.Info("no trace")
	end(nil)
	require.NoError(t, tel.Shutdown(context.Background()))

	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 2)
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Equal(t, trace.SpanContextFromContext(ctx).TraceID().String(), line["trace_id"])
	require.Equal(t, trace.SpanContextFromContext(ctx).SpanID().String(), line["span_id"])
	require.Equal(t, "shop", line["service"])
	require.NotContains(t, lines[1], "trace_id")
}

func TestAnAbsentCollectorBlocksNothing(t *testing.T) {
	clean(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_TIMEOUT=100") // ms, so that failing exports end with the test
	begin := time.Now()
	tel := setup(t, Options{})
	_, end := tel.Span(context.Background(), "work", trace.SpanKindInternal)
	end(nil)
	require.Less(t, time.Since(begin), time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = tel.Shutdown(ctx) // data that cannot be sent is lost
	require.Less(t, time.Since(begin), 5*time.Second)
}

func TestWrongSettingsNameTheVariable(t *testing.T) {
	for variable, set := range map[string][]string{
		"OTEL_TRACES_EXPORTER":     {"OTEL_TRACES_EXPORTER=pigeon"},
		"OTEL_TRACES_SAMPLER":      {"OTEL_TRACES_SAMPLER=sometimes"},
		"OTEL_TRACES_SAMPLER_ARG":  {"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=2"},
		"OTEL_METRICS_EXPORTER":    {"OTEL_METRICS_EXPORTER=pigeon"},
		"OTEL_RESOURCE_ATTRIBUTES": {"OTEL_RESOURCE_ATTRIBUTES=nonsense"},
	} {
		t.Run(variable, func(t *testing.T) {
			clean(t, set...)
			_, err := Setup(context.Background(), "shop", "v1", Options{LogWriter: io.Discard})
			var wrong *settings.Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, variable, wrong.Variable)
		})
	}
}

func TestMetricsPage(t *testing.T) {
	clean(t)
	tel := setup(t, Options{})
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	counter, err := tel.Meter.Int64Counter("flashsale.accepted")
	require.NoError(t, err)
	counter.Add(context.Background(), 3)
	text := page(t, tel.Metrics)
	require.Contains(t, text, "flashsale_accepted_total 3")
	require.Contains(t, text, "go_goroutine_count")
	require.Contains(t, text, "process_resident_memory_bytes")
	require.Contains(t, text, `service_name="shop"`)
}

func TestStatesOfBreakersAndBudgets(t *testing.T) {
	clean(t)
	tel := setup(t, Options{})
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	state, left := "closed", int64(200)
	require.NoError(t, tel.ObserveBreaker("x", func() string { return state }))
	require.NoError(t, tel.ObserveRepeats("x", func() int64 { return left }))
	require.NoError(t, tel.ObserveBreaker("y", func() string { return "open" }))
	require.Regexp(t, `(?m)^flashsale_breaker\{flashsale_dependency="y".*\} 2$`, page(t, tel.Metrics))
	for said, value := range map[string]string{"closed": "0", "half-open": "1", "open": "2"} {
		state = said
		require.Regexp(t, `(?m)^flashsale_breaker\{flashsale_dependency="x".*\} `+value+`$`, page(t, tel.Metrics))
	}
	require.Regexp(t, `(?m)^flashsale_repeats_left\{flashsale_dependency="x".*\} 200$`, page(t, tel.Metrics))
	left = 0
	require.Regexp(t, `(?m)^flashsale_repeats_left\{flashsale_dependency="x".*\} 0$`, page(t, tel.Metrics))
}

func TestMergedMetricsHaveTheLabelService(t *testing.T) {
	one, _ := Recording()
	two, _ := Recording()
	one.Service, two.Service = "one", "two"
	for _, tel := range []*Telemetry{one, two} {
		counter, err := tel.Meter.Int64Counter("flashsale.accepted")
		require.NoError(t, err)
		counter.Add(context.Background(), 1)
	}
	text := page(t, MergeMetrics(one, two))
	require.Contains(t, text, `flashsale_accepted_total{service="one"} 1`)
	require.Contains(t, text, `flashsale_accepted_total{service="two"} 1`)
}

func TestSamplers(t *testing.T) {
	remote, _ := parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	lowID := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	parents := map[string]trace.SpanContext{
		"none": {}, "local": remote, "remote": remote.WithRemote(true), "remote unsampled": remote.WithRemote(true).WithTraceFlags(0),
		"remote low id": lowID.WithRemote(true),
	}
	for name, c := range map[string]struct {
		sampler, arg          string
		exporting, production bool
		sampled               []string
	}{
		"no exporter":        {"", "", false, false, nil},
		"set, no exporter":   {"always_on", "", false, false, []string{"none", "local", "remote", "remote unsampled", "remote low id"}},
		"default":            {"", "", true, false, []string{"none", "local", "remote", "remote low id"}},
		"always off":         {"always_off", "", true, false, nil},
		"ratio 1":            {"parentbased_traceidratio", "1", true, false, []string{"none", "local", "remote", "remote low id"}},
		"ratio 0":            {"parentbased_traceidratio", "0", true, false, []string{"local", "remote", "remote low id"}},
		"bare ratio 0":       {"traceidratio", "0", true, false, nil},
		"off by parent":      {"parentbased_always_off", "", true, false, []string{"local", "remote", "remote low id"}},
		"production":         {"", "", true, true, []string{"none", "local", "remote", "remote unsampled", "remote low id"}},
		"production ratio 0": {"parentbased_traceidratio", "0", true, true, []string{"local"}},
		// An id of zeros is below the bound of any ratio, so a caller could force sampling with it.
		"production small": {"parentbased_traceidratio", "0.0000001", true, true, []string{"local"}},
		"production bare":  {"traceidratio", "0", true, true, []string{"local"}},
		"production off":   {"parentbased_always_off", "", true, true, []string{"local"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"OTEL_TRACES_SAMPLER": c.sampler, "OTEL_TRACES_SAMPLER_ARG": c.arg}
			s, err := samplerFromEnv(func(k string) string { return env[k] }, c.exporting, c.production)
			require.NoError(t, err)
			tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(s))
			var sampled []string
			for parent, sc := range parents {
				_, span := tp.Tracer("").Start(trace.ContextWithSpanContext(context.Background(), sc), "x")
				if sc.IsValid() {
					require.Equal(t, sc.TraceID(), span.SpanContext().TraceID(), "the id is kept")
				}
				if span.SpanContext().IsSampled() {
					sampled = append(sampled, parent)
				}
			}
			require.ElementsMatch(t, c.sampled, sampled)
		})
	}
}

func TestChanceIsAboutRight(t *testing.T) {
	n := 0
	for range 10_000 {
		if chance(0.2).ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background()}).Decision == sdktrace.RecordAndSample {
			n++
		}
	}
	require.InDelta(t, 2000, n, 300)
}

func TestTransportCarriesTheTrace(t *testing.T) {
	tel, recorder := Recording()
	var seen atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.Header.Get("Traceparent")) }))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	ctx, end := tel.Span(context.Background(), "outer", trace.SpanKindInternal)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	resp, err := tel.Transport(base).RoundTrip(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	end(nil)
	require.Len(t, recorder.Ended(), 2)
	require.Contains(t, seen.Load(), trace.SpanContextFromContext(ctx).TraceID().String())
}

func TestComponentShutsDown(t *testing.T) {
	clean(t)
	tel := setup(t, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, tel.Component().Run(ctx))
}

func TestLogLevelsAndGroups(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, slog.LevelWarn)
	log.Info("no")
	log.With("a", 1).WithGroup("g").Warn("yes", "b", 2)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), `"a":1,"g":{"b":2}`)
}

// begin starts n traces and returns their traceparents and trace ids.
func begin(tel *Telemetry, n int) (tps, ids []string) {
	for range n {
		ctx, end := tel.Span(context.Background(), "request", trace.SpanKindServer)
		end(nil)
		tps = append(tps, Traceparent(ctx))
		ids = append(ids, trace.SpanContextFromContext(ctx).TraceID().String())
	}
	return tps, ids
}

// tree lists the spans of a trace as "parent>child".
func tree(spans []sdktrace.ReadOnlySpan, traceID string) []string {
	names := map[trace.SpanID]string{}
	for _, s := range spans {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var edges []string
	for _, s := range spans {
		if s.SpanContext().TraceID().String() == traceID {
			edges = append(edges, names[s.Parent().SpanID()]+">"+s.Name())
		}
	}
	slices.Sort(edges)
	return edges
}

func TestABatchAppearsInEachSampledItemsTrace(t *testing.T) {
	tel, recorder := Recording()
	tps, ids := begin(tel, 3)
	// items: traced, unsampled, traced, malformed, same parent as the first, traced
	items := []string{tps[0], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", tps[1], "invalid", tps[0], tps[2]}
	ctx, batch := tel.StartBatch(context.Background(), "process", trace.SpanKindConsumer, items, AttrTopic.String("topic"))
	in, endTx := tel.Span(ctx, "transaction", trace.SpanKindInternal)
	_, endSQL := tel.Span(in, "sql", trace.SpanKindClient, AttrOutcome.String("ok"))
	endSQL(nil)
	endTx(errors.New("deadlock"))
	_, endPublish := tel.Span(ctx, "publish", trace.SpanKindProducer)
	endPublish(nil)
	batch.Item(2).SetAttributes(AttrOrderSN.String("77"))
	batch.End(nil)

	ended := recorder.Ended()
	require.Len(t, ended, 3+3*4)
	for _, id := range ids {
		require.Equal(t, []string{">request", "process>publish", "process>transaction", "request>process", "transaction>sql"}, tree(ended, id))
	}
	for _, s := range ended {
		switch s.Name() {
		case "transaction":
			require.Equal(t, codes.Error, s.Status().Code)
		case "process":
			require.Equal(t, trace.SpanKindConsumer, s.SpanKind())
			require.Contains(t, s.Attributes(), AttrBatchSize.Int(6))
			require.Equal(t, s.SpanContext().TraceID().String() == ids[1], slices.Contains(s.Attributes(), AttrOrderSN.String("77")))
		}
	}
	for i, want := range []string{ids[0], "", ids[1], "", ids[0], ids[2]} {
		got := batch.Traceparent(i)
		require.Equal(t, want == "", got == "", i)
		require.Contains(t, got, want)
		require.NotEqual(t, items[i], got, "the span of the batch is the parent of the next one")
	}
	require.Empty(t, batch.Traceparent(6))
	require.Empty(t, batch.Traceparent(-1))
}

func TestAnUnsampledBatchRecordsNothing(t *testing.T) {
	tel, recorder := Recording()
	ctx, batch := tel.StartBatch(context.Background(), "process", trace.SpanKindConsumer, []string{"", "", ""})
	in, end := tel.Span(ctx, "transaction", trace.SpanKindInternal)
	// Other instrumentation below it begins no traces either.
	_, foreign := tel.TracerProvider.Tracer("redis").Start(in, "get")
	foreign.End()
	end(nil)
	batch.End(errors.New("x"))
	require.Empty(t, recorder.Started())
	require.Empty(t, Traceparent(in))
	require.True(t, trace.SpanContextFromContext(ctx).IsValid(), "log lines still share an id")
	var none *Batch
	none.End(nil)
	require.Empty(t, none.Traceparent(0))
}

func TestItemContextBelongsToOneItem(t *testing.T) {
	tel, recorder := Recording()
	tps, ids := begin(tel, 2)
	ctx, batch := tel.StartBatch(context.Background(), "process", trace.SpanKindConsumer, []string{tps[0], tps[1], ""})
	_, end := tel.Span(batch.ItemContext(ctx, 1), "reject", trace.SpanKindInternal)
	end(nil)
	_, end = tel.Span(batch.ItemContext(ctx, 2), "reject", trace.SpanKindInternal)
	end(nil)
	batch.End(nil)
	require.NotContains(t, tree(recorder.Ended(), ids[0]), "process>reject")
	require.Contains(t, tree(recorder.Ended(), ids[1]), "process>reject")
	require.Len(t, recorder.Ended(), 2+2+1)
}

func TestTracedItemsOfABatchAreBounded(t *testing.T) {
	tel, recorder := Recording()
	tps, _ := begin(tel, MaxTraced+10)
	recorder.Reset()
	_, batch := tel.StartBatch(context.Background(), "process", trace.SpanKindConsumer, tps)
	batch.End(nil)
	require.Len(t, recorder.Ended(), MaxTraced)
	require.NotEmpty(t, batch.Traceparent(MaxTraced-1))
	require.Empty(t, batch.Traceparent(MaxTraced))
}

func TestWithTraceparentLeavesABatch(t *testing.T) {
	tel, recorder := Recording()
	tps, ids := begin(tel, 2)
	ctx, batch := tel.StartBatch(context.Background(), "process", trace.SpanKindConsumer, tps[:1])
	ctx, end := tel.Span(WithTraceparent(ctx, tps[1]), "alone", trace.SpanKindInternal)
	require.Contains(t, Traceparent(ctx), ids[1])
	end(nil)
	batch.End(nil)
	require.Contains(t, tree(recorder.Ended(), ids[1]), "request>alone")
	same := WithTraceparent(ctx, "invalid")
	require.Equal(t, ctx, same)
}

func BenchmarkUnsampledBatch(b *testing.B) {
	tel, _ := Recording()
	tps := make([]string, 256)
	b.ReportAllocs()
	for b.Loop() {
		ctx, batch := tel.StartBatch(context.Background(), "process", trace.SpanKindConsumer, tps)
		_, end := tel.Span(ctx, "transaction", trace.SpanKindInternal)
		end(nil)
		batch.End(nil)
	}
}

func TestDiscard(t *testing.T) {
	tel := Discard(t)
	ctx, end := tel.Span(context.Background(), "x", trace.SpanKindInternal)
	end(errors.New("x"))
	require.Empty(t, Traceparent(ctx))
	require.NoError(t, tel.Shutdown(context.Background()))
	require.NotNil(t, Discard(nil))
}

func TestAFailedReadingHasNoSample(t *testing.T) {
	tel, _ := Recording()
	r, err := tel.Reading("flashsale.test.waiting")
	require.NoError(t, err)
	sample := func() string {
		w := httptest.NewRecorder()
		tel.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, after, _ := strings.Cut(w.Body.String(), "\nflashsale_test_waiting ")
		value, _, _ := strings.Cut(after, "\n")
		return value
	}
	require.Empty(t, sample(), "no value has been read yet")
	r.Record(0, nil)
	require.Equal(t, "0", sample())
	r.Record(7, nil)
	require.Equal(t, "7", sample())
	r.Record(0, errors.New("no database"))
	require.Empty(t, sample())
	r.Record(8, nil)
	require.Equal(t, "8", sample())
}

func TestSeriesOfCountersBeginAtZero(t *testing.T) {
	tel, _ := Recording()
	c, err := NewCounter(tel.Meter, "flashsale.test.done", "{item}", "", append(
		Series(AttrOutcome, []string{"good"}), Series(AttrReason, []string{"late", "lost"}, AttrOutcome.String("bad"))...)...)
	require.NoError(t, err)
	_, err = NewCounter(tel.Meter, "flashsale.test.all", "{item}", "")
	require.NoError(t, err)
	_, err = tel.Incidents()
	require.NoError(t, err)
	incidents, err := tel.Incidents("odd")
	require.NoError(t, err)
	c.Add(t.Context(), 1, metric.WithAttributes(AttrReason.String("late"), AttrOutcome.String("bad")))
	incidents.Add(t.Context(), 2, metric.WithAttributes(AttrKind.String("odd")))
	counters := regexp.MustCompile(`(?m)^flashsale_.*`).FindAllString(page(t, tel.Metrics), -1)
	require.Equal(t, []string{
		`flashsale_incidents_total 0`,
		`flashsale_incidents_total{flashsale_kind="odd"} 2`,
		`flashsale_test_all_total 0`,
		`flashsale_test_done_total{flashsale_outcome="good"} 0`,
		`flashsale_test_done_total{flashsale_outcome="bad",flashsale_reason="late"} 1`,
		`flashsale_test_done_total{flashsale_outcome="bad",flashsale_reason="lost"} 0`,
	}, counters)
}
