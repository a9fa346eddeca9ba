package e2e

import (
	"testing"

	"flashsale.internal/test/rig"
)

// pathSecret signs the paths and the passes of the shared rig.
const pathSecret = "secret-of-paths-and-passes-0123456789"

// TestOnOneRig runs the tests that need no processes of their own. Each has sales of its own.
func TestOnOneRig(t *testing.T) {
	t.Parallel()
	spans := rig.ReceiveSpans(t)
	r := rig.Start(t, rig.Env("PATH_SECRETS", pathSecret),
		rig.Env("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL), rig.Env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
		rig.Env("OTEL_BSP_SCHEDULE_DELAY", "200"), rig.Env("OTEL_METRICS_EXPORTER", "none"))
	t.Run("one purchase is one trace", func(t *testing.T) { onePurchaseIsOneTrace(t, r, spans) })
	t.Run("challenge", func(t *testing.T) { challenge(t, r) })
	t.Run("holding and reordering", func(t *testing.T) { holdingAndReordering(t, r) })
	t.Run("review before fulfilment", func(t *testing.T) { reviewBeforeFulfilment(t, r) })
}
