package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/chart/dashboards"
)

func dashboardsAreFresh(t *testing.T) {
	for _, d := range dashboards.All() {
		made, err := d.JSON()
		require.NoError(t, err)
		committed, err := os.ReadFile(filepath.Join(chart(), "files/dashboards", d.Name+".json"))
		require.NoError(t, err)
		require.Equal(t, string(committed), string(made), "run 'make generate'")
	}
	files, err := filepath.Glob(filepath.Join(chart(), "files/dashboards/*"))
	require.NoError(t, err)
	require.Len(t, files, len(dashboards.All()))
}

// Labels and functions of PromQL, which are not metrics, have names like theirs.
var labelsOfSeries = regexp.MustCompile(`flashsale_(outcome|reason|limit|state|repair|kind|dependency|transport|mode|provider|call)\b`)

func panelsCanBeRead(t *testing.T) {
	exists := metricsOfTheServices(t)
	var named []string
	for _, a := range alerts(t) {
		named = append(named, a.Name)
	}
	titles, about := map[string]bool{}, map[string]bool{}
	for _, d := range dashboards.All() {
		require.NotEmpty(t, d.About, d.Name)
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				require.False(t, titles[d.Name+p.Title], "two panels have the title %s", p.Title)
				titles[d.Name+p.Title] = true
				require.Regexp(t, `\.$`, p.About, p.Title)
				require.Contains(t, []string{"short", "s", "reqps", "percent", "percentunit", "bytes"}, p.Unit, p.Title)
				require.NotEmpty(t, p.Queries, p.Title)
				if p.Alert != "" {
					require.Contains(t, named, p.Alert, p.Title)
				}
				for _, q := range p.Queries {
					require.NotEmpty(t, q.Legend, p.Title)
					about[q.Expr] = true
					for _, used := range usedMetrics.FindAllString(labelsOfSeries.ReplaceAllString(q.Expr, ""), -1) {
						require.True(t, exists(used), "%s: %s", p.Title, used)
					}
					for _, counter := range regexp.MustCompile(`\w+_(total|bucket|count)\b`).FindAllString(q.Expr, -1) {
						require.Regexp(t, `(rate|increase)\(`+counter+`(\{[^}]*\})?\[(\$__rate_interval|1h)\]`, q.Expr, p.Title)
					}
				}
			}
		}
	}
	require.Greater(t, len(about), 30)
}

// The addresses of the runbook are those of the installation.
func dashboardsAreRendered(t *testing.T) {
	r := production("monitoring.enabled=true", "monitoring.runbookURL=https://wiki.example.com/runbook")
	text := r.text(t)
	for _, d := range dashboards.All() {
		require.Contains(t, text, "flashsale-"+d.Name+".json: |-")
	}
	require.Contains(t, text, `"url":"https://wiki.example.com/runbook#flashsalelandingstalled"`)
	require.NotContains(t, text, "docs/runbook.md#")
	require.Equal(t, 1, strings.Count(text, "grafana_dashboard:"))
}
