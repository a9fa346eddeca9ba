package telemetry

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

func TestAnInvalidEndpointStopsTheStart(t *testing.T) {
	for _, setting := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4317",
		"OTEL_EXPORTER_OTLP_ENDPOINT=::bad",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://",
		"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4317",
	} {
		clean(t, setting)
		_, err := Setup(context.Background(), "shop", "v1", Options{})
		var wrong *settings.Error
		require.ErrorAs(t, err, &wrong, setting)
		require.Contains(t, setting, wrong.Variable+"=")
	}
	for _, url := range []string{"", "http://127.0.0.1:4317", "https://collector.example/otlp", "unix:///run/otel.sock"} {
		require.NoError(t, checkEndpoints(func(string) string { return url }), url)
	}
}
