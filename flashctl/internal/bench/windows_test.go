package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/internal/latency"
	"flashsale.internal/flashctl/internal/load"
)

func TestSectionsAreSelectedByPhaseAndName(t *testing.T) {
	names := func(phase Phase, only string) (names []string) {
		selected, err := selectSections(phase, only)
		require.NoError(t, err)
		for _, s := range selected {
			names = append(names, s.name)
		}
		return names
	}
	require.Equal(t, []string{"accepted", "refused", "polled", "landed", "steady", "closing"}, names(Priorities, ""))
	require.Equal(t, []string{"refused"}, names(Priorities, "refused"))
	require.Contains(t, names(Installed, ""), "inline")
	require.NotContains(t, names(Installed, ""), "sustained", "it is long")
	require.Equal(t, []string{"sustained"}, names(Installed, "sustained"))
	_, err := selectSections(Installed, "refused")
	require.ErrorContains(t, err, `phase "installed" has no section "refused"`)
	all := map[string]bool{}
	for _, name := range sectionNames("") {
		require.False(t, all[name], "%s is not unique", name)
		all[name] = true
	}
}

func TestScaleShortensTheSectionsAsInstalled(t *testing.T) {
	b := &bench{cfg: Config{Scale: 0.1}}
	require.Equal(t, 3*time.Second, b.scaled(30*time.Second))
	require.Equal(t, time.Second, b.scaled(5*time.Second))
	require.Equal(t, 2000, b.scaledCount(20_000, 8))
	require.Equal(t, 8, b.scaledCount(20, 8))
	b.cfg.Scale = 0
	require.Equal(t, 30*time.Second, b.scaled(30*time.Second))
	require.Equal(t, 20_000, b.scaledCount(20_000, 8))
}

func TestAWindowHasThreeFiguresOfOneRun(t *testing.T) {
	w := Window{
		Name: "path inline", Connections: 64, Took: 10 * time.Second, Accepted: 50_000, Landed: 20_000, Inline: true,
		Behind: 4 * time.Second, Unavailable: 3, Bare: 20_000,
		Result: load.BatchResult{
			Latency: latency.Summary{P50: time.Second, P99: time.Second},
			Second:  latency.Summary{P50: 5 * time.Millisecond, P99: 50 * time.Millisecond},
		},
		Course: []Interval{{From: 10 * time.Second, Accepted: 4000, Landed: 1000, Unavailable: 2, Oldest: 3 * time.Second}},
	}
	r := Report{Phase: Installed, Scale: 1, Windows: []Window{w}}
	var out strings.Builder
	r.Markdown(&out)
	require.Contains(t, out.String(),
		"| path inline | 64 | 10.0 s | 5000 | 0.25 | 2000 | 4.00 s | 3 | 5.0 ms | 50 ms |\n")
	require.Contains(t, out.String(), "| 10.0 s | 4000 | 1000 | 2 | 3.00 s |\n")
	require.NotContains(t, out.String(), "| Requests |")

	slower := w
	slower.Accepted, slower.Landed = 40_000, 40_000
	faster := w
	faster.Accepted, faster.Landed = 160_000, 40_000
	require.Contains(t, tableOf(&r, &Report{Windows: []Window{slower, faster}}), "| 50 ms | 0.50 | 0.50 |")
	require.Contains(t, tableOf(&r, &Report{}), "| 50 ms | – | – |")
}

func tableOf(r, before *Report) string {
	var out strings.Builder
	r.windows(printTo(&out), before)
	return out.String()
}
