package telemetry

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/settings"
)

// samplerFromEnv reads OTEL_TRACES_SAMPLER and its argument. Without an exporter and without the variable, nothing is
// sampled.
//
// In production the sampling decision of a remote parent is ignored, since any caller can send the header. Such a
// trace keeps its id and is sampled as often as one that begins here. The decision is random and does not depend on
// the trace id, which the caller chose too. Parents from messages of this system are not remote (see
// WithTraceparent), and their decision applies.
func samplerFromEnv(getenv func(string) string, exporting, production bool) (sdktrace.Sampler, error) {
	const variable = "OTEL_TRACES_SAMPLER"
	name := strings.ToLower(strings.TrimSpace(getenv(variable)))
	if name == "" && !exporting {
		return sdktrace.NeverSample(), nil
	}
	ratio := 1.0
	if strings.HasSuffix(name, "traceidratio") {
		if arg := getenv(variable + "_ARG"); arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return nil, settings.Wrong(variable+"_ARG", "is %q, which is not a ratio between 0 and 1", arg)
			}
		}
	}
	var root sdktrace.Sampler
	byParent := true
	switch name {
	case "", "parentbased_always_on":
		root = sdktrace.AlwaysSample()
	case "parentbased_always_off":
		root, ratio = sdktrace.NeverSample(), 0
	case "parentbased_traceidratio":
		root = sdktrace.TraceIDRatioBased(ratio)
	case "always_on":
		root, byParent = sdktrace.AlwaysSample(), false
	case "always_off":
		root, ratio, byParent = sdktrace.NeverSample(), 0, false
	case "traceidratio":
		root, byParent = sdktrace.TraceIDRatioBased(ratio), false
	default:
		return nil, settings.Wrong(variable, "is %q, which is none of always_on, always_off, traceidratio, "+
			"parentbased_always_on, parentbased_always_off and parentbased_traceidratio", name)
	}
	switch {
	case production:
		// Parent-based with traceidratio too: the decision for a remote parent applies to the spans below it.
		remote := chance(ratio)
		return sdktrace.ParentBased(root,
			sdktrace.WithRemoteParentSampled(remote), sdktrace.WithRemoteParentNotSampled(remote)), nil
	case byParent:
		return sdktrace.ParentBased(root), nil
	default:
		return root, nil
	}
}

// chance is a sampler with this ratio, independent of the trace id.
type chance float64

func (c chance) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := sdktrace.SamplingResult{Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if c >= 1 || rand.Float64() < float64(c) { //nolint:gosec // no secret depends on it
		r.Decision = sdktrace.RecordAndSample
	}
	return r
}

func (c chance) Description() string { return fmt.Sprintf("Chance{%g}", float64(c)) }
