// Package telemetry provides the observability of a service: a logger, a tracer, a meter and the metrics page. It
// uses no globals, so that one process may have several (allinone has three). The exception is OpenTelemetry's error
// handler, which Setup connects to the log.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
)

// scope names the instrumentation in spans and metrics.
const scope = "flashsale.internal"

// Telemetry holds the logger, traces and metrics of one service.
type Telemetry struct {
	Service        string
	Log            *slog.Logger
	Tracer         trace.Tracer
	Meter          metric.Meter
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
	Metrics        http.Handler // the Prometheus page

	levels   levels
	gatherer prometheus.Gatherer
	shutdown func(context.Context) error
}

// Options holds the options of Setup. The zero value suits development.
type Options struct {
	Production bool       // external callers cannot force sampling
	LogLevel   slog.Level // minimum level
	LogWriter  io.Writer  // nil = standard output
}

// Setup creates the telemetry of a service from the OTEL_* variables. Spans are exported by gRPC or http/protobuf if
// an endpoint is set (OTEL_EXPORTER_OTLP_ENDPOINT) or OTEL_TRACES_EXPORTER names an exporter. Metrics are always on
// the Prometheus page, and also pushed if OTEL_METRICS_EXPORTER is otlp or console. An unreachable collector never
// blocks the service.
func Setup(ctx context.Context, service, version string, o Options) (t *Telemetry, err error) {
	w := o.LogWriter
	if w == nil {
		w = os.Stdout
	}
	log := NewLogger(w, o.LogLevel).With("service", service)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.WarnContext(ctx, "telemetry export failed", "error", err)
	}))

	named, err := resource.New(ctx, resource.WithFromEnv())
	if err != nil {
		return nil, settings.Wrong("OTEL_RESOURCE_ATTRIBUTES", "cannot be used: %v", err)
	}
	known, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", service),
			attribute.String("service.version", version)))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("telemetry resource: %w", err)
	}
	res, err := resource.Merge(known, named) // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("telemetry resource: %w", err)
	}

	if err := checkEndpoints(os.Getenv); err != nil {
		return nil, err
	}
	exporting := exportsTraces()
	sampler, err := samplerFromEnv(os.Getenv, exporting, o.Production)
	if err != nil {
		return nil, err
	}
	traceOpts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithSampler(sampler)}
	if exporting {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, settings.Wrong("OTEL_TRACES_EXPORTER", "or one of OTEL_EXPORTER_OTLP_* cannot be used: %v", err)
		}
		traceOpts = append(traceOpts, sdktrace.WithBatcher(exporter))
	}
	tp := sdktrace.NewTracerProvider(traceOpts...)
	defer func() {
		if err != nil {
			_ = tp.Shutdown(context.WithoutCancel(ctx)) // nothing has been recorded yet, so it does not wait
		}
	}()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	page, err := promexporter.New(promexporter.WithRegisterer(registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics page: %w", err)
	}
	meterOpts := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(page)}
	if e := os.Getenv("OTEL_METRICS_EXPORTER"); pushesMetrics(e) {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, settings.Wrong("OTEL_METRICS_EXPORTER", "cannot be used: %v", err)
		}
		meterOpts = append(meterOpts, sdkmetric.WithReader(reader))
	}
	mp := sdkmetric.NewMeterProvider(meterOpts...)
	if err := runtime.Start(runtime.WithMeterProvider(mp)); err != nil {
		return nil, fmt.Errorf("runtime metrics: %w", err)
	}

	t = assemble(service, log, tp, mp)
	t.gatherer = registry
	t.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	t.shutdown = func(ctx context.Context) error { return errors.Join(tp.Shutdown(ctx), mp.Shutdown(ctx)) }
	return t, nil
}

func assemble(service string, log *slog.Logger, tp trace.TracerProvider, mp metric.MeterProvider) *Telemetry {
	return &Telemetry{
		Service:        service,
		Log:            log,
		Tracer:         tp.Tracer(scope),
		Meter:          mp.Meter(scope),
		TracerProvider: tp,
		MeterProvider:  mp,
		Propagator:     propagation.TraceContext{},
		Metrics:        http.NotFoundHandler(),
		gatherer:       prometheus.NewRegistry(),
		shutdown:       func(context.Context) error { return nil },
	}
}

// exportsTraces reports whether the environment configures an exporter of spans.
func exportsTraces() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	switch os.Getenv("OTEL_TRACES_EXPORTER") {
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	case "none":
		return false
	default:
		return true
	}
}

func pushesMetrics(exporter string) bool {
	return exporter != "" && exporter != "none" && exporter != "prometheus"
}

// Shutdown sends buffered data and stops the exporters.
func (t *Telemetry) Shutdown(ctx context.Context) error { return t.shutdown(ctx) }

// Component shuts the telemetry down at the end of the process. It goes first in the list, so that it ends last.
func (t *Telemetry) Component() lifecycle.Component {
	return lifecycle.Component{Name: t.Service + " telemetry", Run: func(ctx context.Context) error {
		<-ctx.Done()
		out, cancel := lifecycle.DrainContext(ctx)
		defer cancel()
		out, cancelOut := context.WithTimeout(out, 5*time.Second)
		defer cancelOut()
		if err := t.Shutdown(out); err != nil {
			t.Log.WarnContext(ctx, "telemetry shutdown failed, some data was not sent", "error", err)
		}
		return nil
	}}
}

// Transport returns a transport that traces outgoing HTTP calls and propagates the trace. A nil base is
// http.DefaultTransport.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return otelhttp.NewTransport(base, otelhttp.WithTracerProvider(t.TracerProvider),
		otelhttp.WithMeterProvider(t.MeterProvider), otelhttp.WithPropagators(t.Propagator))
}

// TB is the part of testing.TB that Discard uses.
type TB interface{ Helper() }

// Discard returns telemetry that is neither recorded nor exported. Traces have ids but are never sampled.
func Discard(t TB) *Telemetry {
	if t != nil {
		t.Helper()
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	return assemble("test", slog.New(slog.DiscardHandler), tp, sdkmetric.NewMeterProvider())
}

// Recording returns telemetry for tests: the recorder gets every span, and the page has every metric. Logs are
// discarded.
func Recording() (*Telemetry, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	registry := prometheus.NewRegistry()
	var opts []sdkmetric.Option
	if page, err := promexporter.New(promexporter.WithRegisterer(registry),
		promexporter.WithoutScopeInfo()); err == nil {
		opts = append(opts, sdkmetric.WithReader(page))
	}
	t := assemble("test", slog.New(slog.DiscardHandler), tp, sdkmetric.NewMeterProvider(opts...))
	t.gatherer = registry
	t.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return t, recorder
}
