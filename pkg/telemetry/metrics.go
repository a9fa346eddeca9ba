package telemetry

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// MergeMetrics returns one metrics page for several services in a process. The label "service" names the service.
func MergeMetrics(of ...*Telemetry) http.Handler {
	var all prometheus.Gatherers
	for _, t := range of {
		all = append(all, labelled{t.gatherer, t.Service})
	}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{})
}

type labelled struct {
	prometheus.Gatherer
	service string
}

// Gather adds the label. Labels must be sorted by name.
func (l labelled) Gather() ([]*dto.MetricFamily, error) {
	families, err := l.Gatherer.Gather()
	name := "service"
	for _, f := range families {
		for _, m := range f.GetMetric() {
			at, has := slices.BinarySearchFunc(m.GetLabel(), name, func(p *dto.LabelPair, n string) int {
				switch {
				case p.GetName() < n:
					return -1
				case p.GetName() > n:
					return 1
				}
				return 0
			})
			if !has {
				m.Label = slices.Insert(m.Label, at, &dto.LabelPair{Name: &name, Value: &l.service})
			}
		}
	}
	return families, err
}
