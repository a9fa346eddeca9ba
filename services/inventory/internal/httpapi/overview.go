package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/presence"
	"flashsale.internal/services/inventory/api"
	"flashsale.internal/services/inventory/internal/merchants"
)

// rank orders the states of the overview, the worst first. What is unknown may be bad.
var rank = map[api.OverviewState]int{
	api.Bad: 0, api.Unknown: 1, api.Warning: 2, api.Good: 3,
}

// GetOverview implements api.ServerInterface.
func (m *Merchant) GetOverview(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	waiting, err := m.merchants.Overview.Waiting(ctx)
	if err != nil {
		m.refuse(w, r, err)
		return
	}
	items := []api.OverviewItem{
		waits(api.Restore, api.Bad, waiting.Imports),
		waits(api.RedislessSales, api.Warning, waiting.RedislessSales),
		waits(api.DeadLetters, api.Warning, waiting.DeadLetters),
		m.refundItem(ctx),
	}
	states, err := presence.List(ctx, m.limits.Redis())
	items = append(items, processItems(states, err)...)
	slices.SortStableFunc(items, func(a, b api.OverviewItem) int {
		return cmp.Compare(rank[a.State], rank[b.State])
	})
	httpserver.WriteJSON(w, http.StatusOK, api.Overview{Verdict: items[0].State, Items: items, AsOf: m.now().UTC()})
}

// waits returns an item that is good if nothing waits.
func waits(what api.OverviewItemWhat, state api.OverviewState, of merchants.Waits) api.OverviewItem {
	if of.Count == 0 {
		return api.OverviewItem{What: what, State: api.Good}
	}
	return api.OverviewItem{What: what, State: state, Count: of.Count, Since: optional(of.Since.UTC())}
}

// refundTimeout bounds the count of refunds, so that a slow order service leaves time for the rest of the overview.
const refundTimeout = 3 * time.Second

func (m *Merchant) refundItem(ctx context.Context) api.OverviewItem {
	ctx, cancel := context.WithTimeout(ctx, refundTimeout)
	defer cancel()
	refunds, err := m.merchants.CountRefunds(ctx)
	if err != nil { // the order service counts among the processes
		return api.OverviewItem{What: api.Refunds, State: api.Unknown}
	}
	return waits(api.Refunds, api.Warning, refunds)
}

// services are the components of which a running system has a ready process each.
var services = []string{"seckill", "order", "inventory"}

// processItems judges the processes; err is that of reading their states.
func processItems(states []presence.State, err error) []api.OverviewItem {
	processes := api.OverviewItem{What: api.Processes, State: api.Good}
	breakers := api.OverviewItem{What: api.Dependencies, State: api.Good}
	offsets := api.OverviewItem{What: api.Clocks, State: api.Good}
	if err != nil {
		for _, item := range []*api.OverviewItem{&processes, &breakers, &offsets} {
			item.State = api.Unknown
		}
		return []api.OverviewItem{processes, breakers, offsets}
	}
	ready := map[string]bool{}
	for _, s := range states {
		if ready[s.Component] = ready[s.Component] || s.Ready; !s.Ready {
			worsen(&processes, api.Warning)
		}
		if slices.ContainsFunc(s.Breakers, func(b presence.Breaker) bool { return b.State != "closed" }) {
			worsen(&breakers, api.Bad)
		}
		switch ahead := furthest(s.ClockOffsetMS); {
		case ahead > clocks.StopOver:
			worsen(&offsets, api.Bad)
		case ahead > clocks.WarnOver:
			worsen(&offsets, api.Warning)
		}
	}
	for _, name := range services {
		switch up, known := ready[name]; {
		case !known:
			worsen(&processes, api.Bad)
		case !up: // its processes are counted
			processes.State = api.Bad
		}
	}
	return []api.OverviewItem{processes, breakers, offsets}
}

// worsen counts one more for an item, and makes its state at least this bad.
func worsen(item *api.OverviewItem, state api.OverviewState) {
	item.Count++
	if rank[state] < rank[item.State] {
		item.State = state
	}
}

// furthest returns the largest offset of a clock, ahead or behind.
func furthest(offsetsMS map[string]int64) time.Duration {
	var most int64
	for _, ms := range offsetsMS {
		most = max(most, ms, -ms)
	}
	return time.Duration(most) * time.Millisecond
}
