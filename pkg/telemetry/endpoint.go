package telemetry

import (
	"net/url"

	"flashsale.internal/pkg/settings"
)

// checkEndpoints reports an invalid address, such as localhost:4317 without a scheme. The exporters would only print
// a line and then fail to connect.
func checkEndpoints(getenv func(string) string) error {
	for _, variable := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
	} {
		value := getenv(variable)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err == nil && (u.Scheme == "unix" || u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")) {
			continue
		}
		return settings.Wrong(variable, "is not a URL such as http://127.0.0.1:4318") // it may hold a password
	}
	return nil
}
