package inventory

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
)

// A counter that begins with its first event would hide it from increase(). The file has every series.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tel, _ := telemetry.Recording()
	limits, err := admission.New(admission.Settings{Rules: "testdata/rule.yaml"}, settings.Redis{Addrs: []string{"127.0.0.1:1"}}, tel)
	require.NoError(t, err)
	t.Cleanup(func() { _ = limits.Redis().Close() })
	_, err = New(Config{Auth: settings.Auth{Lenient: true, HS256Secrets: []string{testSecret}}, Internal: settings.Internal{Secrets: []string{"x"}}},
		Deps{DB: w.db, Redis: w.rdb, Bus: discardBus{w.broker}, Telemetry: tel, Limits: limits})
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/counters.txt")
	require.NoError(t, err)
	counters := regexp.MustCompile(`(?m)^flashsale_\w+_total.*\n`).FindAllString(metricsOf(t, tel), -1)
	require.Equal(t, string(want), strings.Join(counters, ""))
}
