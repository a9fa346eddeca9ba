package trouble

import (
	"net/http"
	"testing"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
)

// downtime is the time for which each dependency and each service is down.
const downtime = 30 * time.Second

// longDowntime is longer than the minute for which a consumer retries a message before it returns it to the broker.
const longDowntime = 75 * time.Second

// TestOutages stops each dependency and each service for 30 s, MySQL also for longer, one after the other, while
// buyers keep calling. It checks the responses during the outage, and how soon each step recovers by itself.
func TestOutages(t *testing.T) {
	t.Parallel() // most of the time it waits
	dependencies := rig.OwnDependencies(t, 6500)
	r := rig.New(t, dependencies.Option(), rig.Env("BROKERLESS_AFTER", "0"))
	dependencies.Prepare(t, r)
	startAll(t, r)

	dependency := func(names ...string) outage {
		return outage{func(t *testing.T) { dependencies.Do(t, "kill", names...) }, func(t *testing.T) { dependencies.Do(t, "up", names...) }}
	}
	service := func(p *rig.Process) outage {
		return outage{func(t *testing.T) { p.Kill(t) }, func(t *testing.T) {
			p.Start(t)
			p.WaitStatus(t, p.Admin+"/livez", http.StatusOK, anyWithin)
		}}
	}
	for _, tr := range []trouble{
		{
			name: "redis", code: contract.CodeGateUnavailable, outage: dependency("redis"), atOnce: 500 * time.Millisecond, patience: 10 * time.Second,
			want: map[string]manner{
				callPath: refused, callPurchase: refused, callResult: refused, callStock: refused,
			},
		},
		{
			name: "mysql", code: contract.CodeUnavailable, queues: true, outage: dependency("mariadb"), atOnce: 500 * time.Millisecond, patience: 15 * time.Second,
			want: map[string]manner{callOrder: refused, callPay: refused, callStock: refused},
		},
		{ // messages go back to RocketMQ, which redelivers them
			name: "mysql for long", code: contract.CodeUnavailable, queues: true, redelivers: true, outage: dependency("mariadb"), lasts: longDowntime, patience: 15 * time.Second,
			want: map[string]manner{callOrder: refused, callPay: refused, callStock: refused},
		},
		{name: "broker", queues: true, outage: dependency("broker"), meanwhile: fullJournal},
		{name: "name server", outage: dependency("namesrv")},
		{name: "broker and name server", queues: true, outage: dependency("namesrv", "broker")},
		{name: "order", queues: true, outage: service(r.Order), want: map[string]manner{callOrder: noResponse, callPay: noResponse}},
		{name: "inventory", queues: true, outage: service(r.Inventory), want: map[string]manner{callStock: noResponse}},
		{
			name: "seckill", outage: service(r.Seckill),
			want: map[string]manner{callPath: noResponse, callPurchase: noResponse, callResult: noResponse},
		},
	} {
		t.Run(tr.name, func(t *testing.T) {
			tr.lasts, tr.opens, tr.resumes = max(tr.lasts, downtime), 5*time.Second, 60*time.Second
			if tr.patience == 0 {
				tr.patience = 10 * time.Second
			}
			s := newScene(t, r, tr.lasts)
			s.lapses(t)
			tr.through(t, s)
			s.settle(t)
			if s.after != nil {
				s.after(t)
			}
		})
	}
}

func startAll(t *testing.T, r *rig.Rig) {
	t.Helper()
	for _, p := range r.Processes() {
		p.Start(t)
	}
	for _, p := range r.Processes() {
		p.WaitReady(t)
	}
	r.Seckill.WaitStatus(t, r.Seckill.URL+"/v1/activities", http.StatusOK, anyWithin)
}
