package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client/load"
	"flashsale.internal/flashctl/internal/shoptest"
	"flashsale.internal/flashctl/internal/storm"
)

func TestStorm(t *testing.T) {
	shop := shoptest.Start(t, shoptest.Faults{})
	t.Setenv("BASE_URL", shop.URL)
	status, out, errs := run(t, "load", "storm", "--connections", "40", "--within", "100ms", "--json")
	require.Zero(t, status, errs)
	var report load.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, 40, report.Step(storm.Begun).Times.Count)
	require.Equal(t, map[string]int{"201": 40}, report.Step(storm.Responses).Outcomes)
	require.Equal(t, 40, report.Step(storm.Responses).Times.Count)

	status, out, errs = run(t, "load", "storm", "--connections", "10", "--processes", "1", "--within", "0s")
	require.Zero(t, status, errs)
	require.Regexp(t, `begun +n=10 `, out)
	require.Regexp(t, `201 +10 `, out)
}

func TestStormRefusesWhatDoesNotFit(t *testing.T) {
	shop := shoptest.Start(t, shoptest.Faults{})
	t.Setenv("BASE_URL", shop.URL)
	for want, args := range map[string][]string{
		"--remote allows it":        {"--target", "http://192.0.2.1:80"},
		"0 connections":             {"--connections", "0"},
		"17 processes: 1 to 16":     {"--processes", "17"},
		"from each":                 {"--connections", "60000", "--sources", "2", "--processes", "16"},
		"100 slow":                  {"--connections", "100000", "--slow", "100"},
		"is not an address such as": {"--target", "ftp://127.0.0.1:80"},
	} {
		status, _, errs := run(t, append([]string{"load", "storm"}, args...)...)
		require.NotZero(t, status)
		require.Contains(t, errs, want)
	}
}
