// Package dashboards has the Grafana dashboards of the chart as code. `make generate` writes them into
// deploy/helm/flashsale/files/dashboards, as JSON that Grafana imports.
package dashboards

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// A Dashboard is one page of panels.
type Dashboard struct {
	Name  string // of its file, and its uid with the prefix "flashsale-"
	Title string
	About string
	Rows  []Row
}

// A Row is a group of panels under a heading.
type Row struct {
	Title  string
	Panels []Panel
}

// A Panel shows the series of its queries over time.
type Panel struct {
	Title   string
	About   string // what it shows and what is normal
	Unit    string // of Grafana: short, s, reqps, percentunit, bytes
	Alert   string // whose section of the runbook it links to, or ""
	Queries []Query
}

// A Query is an expression of PromQL. Its ranges are [$__rate_interval], but for counts over a longer time.
type Query struct {
	Legend string
	Expr   string
}

// All returns the dashboards.
func All() []Dashboard { return []Dashboard{sale(), money(), dependencies()} }

const (
	panelWidth  = 8 // of 24 columns
	panelHeight = 8
	// The chart replaces it with the address of the runbook, as in the alerts.
	runbook = "docs/runbook.md#"
)

// JSON returns the dashboard as Grafana imports it.
func (d Dashboard) JSON() ([]byte, error) {
	b := dashboard.NewDashboardBuilder(d.Title). //nolint:staticcheck // every Grafana imports this schema, only new ones the second
							Uid("flashsale-"+d.Name).Description(d.About).Tags([]string{"flashsale"}).
							Time("now-15m", "now").Refresh("10s").Tooltip(dashboard.DashboardCursorSyncCrosshair).Readonly().
							WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for _, other := range []string{"sale", "money", "dependencies"} {
		if other != d.Name {
			b.Link(dashboard.NewDashboardLinkBuilder(other).Type(dashboard.DashboardLinkTypeLink).
				Url("/d/flashsale-" + other).KeepTime(true))
		}
	}
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for _, r := range d.Rows {
		b.WithRow(dashboard.NewRowBuilder(r.Title).Id(next()))
		for _, p := range r.Panels {
			b.WithPanel(p.builder(next()))
		}
	}
	made, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.Name, err)
	}
	text, err := json.Marshal(made)
	return append(text, '\n'), err
}

func (p Panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	b := timeseries.NewPanelBuilder().Id(id).Title(p.Title).Description(p.About).Unit(p.Unit).Min(0).
		Span(panelWidth).Height(panelHeight).Datasource(source()).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).Calcs([]string{})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Alert != "" {
		b.Links([]cog.Builder[dashboard.DashboardLink]{
			dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).Url(runbook + strings.ToLower(p.Alert)),
		})
	}
	for i, q := range p.Queries {
		b.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.Expr).LegendFormat(q.Legend).RefId(string(rune('A' + i))).
			Datasource(source()))
	}
	return b
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}
