package httpapi

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/presence"
	"flashsale.internal/services/inventory/api"
)

func TestProcessesAreJudged(t *testing.T) {
	up := func(component string) presence.State { return presence.State{Component: component, Ready: true} }
	down := func(component string) presence.State { return presence.State{Component: component} }
	breaker := func(state string) presence.State {
		s := up("order")
		s.Breakers = []presence.Breaker{{Name: "database", State: state}}
		return s
	}
	clock := func(ms int64) presence.State {
		s := up("seckill")
		s.ClockOffsetMS = map[string]int64{"redis": 1, "database": ms}
		return s
	}
	all := []presence.State{up("seckill"), up("order"), up("inventory")}
	type judged struct {
		state api.OverviewState
		count int64
	}
	good := judged{state: api.Good}
	for name, c := range map[string]struct {
		states                          []presence.State
		err                             error
		processes, dependencies, clocks judged
	}{
		"all is well":          {states: all, processes: good, dependencies: good, clocks: good},
		"nothing is known":     {err: errors.New("redis"), processes: judged{state: api.Unknown}, dependencies: judged{state: api.Unknown}, clocks: judged{state: api.Unknown}},
		"one of two is not":    {states: append(all[:3:3], down("order")), processes: judged{api.Warning, 1}, dependencies: good, clocks: good},
		"none of a service is": {states: []presence.State{up("seckill"), down("order"), down("order"), up("inventory")}, processes: judged{api.Bad, 2}, dependencies: good, clocks: good},
		"a service has none":   {states: all[:2], processes: judged{api.Bad, 1}, dependencies: good, clocks: good},
		"no process reports":   {processes: judged{api.Bad, 3}, dependencies: good, clocks: good},
		"an open breaker":      {states: append(all[:3:3], breaker("open")), processes: good, dependencies: judged{api.Bad, 1}, clocks: good},
		"a half-open breaker":  {states: append(all[:3:3], breaker("half-open")), processes: good, dependencies: judged{api.Bad, 1}, clocks: good},
		"a closed breaker":     {states: append(all[:3:3], breaker("closed")), processes: good, dependencies: good, clocks: good},
		"clocks within bounds": {states: append(all[:3:3], clock(250), clock(-250)), processes: good, dependencies: good, clocks: good},
		"clocks that differ":   {states: append(all[:3:3], clock(251), clock(-2000)), processes: good, dependencies: good, clocks: judged{api.Warning, 2}},
		"a clock that stops":   {states: append(all[:3:3], clock(-2001), clock(300)), processes: good, dependencies: good, clocks: judged{api.Bad, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[api.OverviewItemWhat]judged{}
			for _, item := range processItems(c.states, c.err) {
				got[item.What] = judged{item.State, item.Count}
			}
			require.Equal(t, map[api.OverviewItemWhat]judged{
				api.Processes: c.processes, api.Dependencies: c.dependencies, api.Clocks: c.clocks,
			}, got)
		})
	}
}
