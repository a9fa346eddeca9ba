package e2e

import (
	"net/http"
	"testing"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/e2e/rig"
)

// absence is how long each part and each service is away.
const absence = 30 * time.Second

// heldUp is longer than a message that cannot be handled waits in a consumer, which is a minute.
const heldUp = 75 * time.Second

// Each part and each service is away for 30 s, MySQL also for longer, one after the other, while buyers go on calling: what they are told, what
// goes on, what resumes by itself, and how soon.
func TestAway(t *testing.T) {
	t.Parallel() // it waits far more than it works
	parts := rig.OwnParts(t, 6500)
	r := rig.New(t, parts.Option())
	parts.Do(t, "up")
	parts.MakeDatabases(t)
	r.PrepareBroker(t)
	r.Migrate(t)
	startAll(t, r)

	part := func(names ...string) outage {
		return outage{func(t *testing.T) { parts.Do(t, "kill", names...) }, func(t *testing.T) { parts.Do(t, "up", names...) }}
	}
	service := func(p *rig.Process) outage {
		return outage{func(t *testing.T) { p.Kill(t) }, func(t *testing.T) {
			p.Start(t)
			p.WaitStatus(t, p.Admin+"/livez", http.StatusOK, anyWithin)
		}}
	}
	for _, tr := range []trouble{
		{
			name: "redis", code: contract.CodeGateUnavailable, outage: part("redis"), atOnce: 500 * time.Millisecond, patience: 10 * time.Second,
			told: map[string]manner{
				callPath: refused, callPurchase: refused, callResult: refused, callStock: refused,
			},
		},
		{
			name: "mysql", code: contract.CodeUnavailable, queues: true, outage: part("mariadb"), atOnce: 500 * time.Millisecond, patience: 15 * time.Second,
			told: map[string]manner{callOrder: refused, callPay: refused, callStock: refused},
		},
		{ // RocketMQ gets back what waits, and delivers it again and again
			name: "mysql for long", code: contract.CodeUnavailable, queues: true, redelivers: true, outage: part("mariadb"), lasts: heldUp, patience: 15 * time.Second,
			told: map[string]manner{callOrder: refused, callPay: refused, callStock: refused},
		},
		{name: "broker", queues: true, outage: part("broker"), meanwhile: fullJournal},
		{name: "name server", outage: part("namesrv")},
		{name: "broker and name server", queues: true, outage: part("namesrv", "broker")},
		{name: "order", queues: true, outage: service(r.Order), told: map[string]manner{callOrder: unanswered, callPay: unanswered}},
		{name: "inventory", queues: true, outage: service(r.Inventory), told: map[string]manner{callStock: unanswered}},
		{
			name: "seckill", outage: service(r.Seckill),
			told: map[string]manner{callPath: unanswered, callPurchase: unanswered, callResult: unanswered},
		},
	} {
		t.Run(tr.name, func(t *testing.T) {
			tr.lasts, tr.opens, tr.resumes = max(tr.lasts, absence), 5*time.Second, 60*time.Second
			if tr.patience == 0 {
				tr.patience = 10 * time.Second
			}
			s := newScene(t, r, tr.lasts)
			s.lapses(t)
			tr.through(t, s)
			s.settle(t)
			if s.left != nil {
				s.left(t)
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
