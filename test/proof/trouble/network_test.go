package trouble

import (
	"testing"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
)

// The network between each service and each of its dependencies is cut, drops all bytes, and is slow, one after the
// other, while buyers keep calling. Every response arrives within the time-outs; the rest is as when the dependency is
// down.
func TestNetworkTrouble(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Env("BROKERLESS_AFTER", "0"))
	links := r.Links(t)
	startAll(t, r)
	// Calls that are not served while no byte gets through.
	want := map[string]map[string]manner{
		"seckill to redis":   {callPath: refused, callPurchase: refused, callResult: refused},
		"inventory to redis": {callStock: refused},
		"order to mysql":     {callOrder: refused, callPay: refused},
		"inventory to mysql": {callStock: refused},
	}
	for _, l := range links {
		t.Run(l.String(), func(t *testing.T) {
			s := newScene(t, r, 25*time.Second)
			usual := trouble{
				opens: 4 * time.Second, patience: 35 * time.Second, resumes: anyWithin, want: want[l.String()],
				code: map[string]contract.Code{"redis": contract.CodeGateUnavailable, "mysql": contract.CodeUnavailable}[l.Dependency],
			}
			end := func(t *testing.T) { l.Heal(t) }

			cut := usual
			cut.name, cut.lasts, cut.outage = l.String()+" cut", 7*time.Second, outage{func(t *testing.T) { l.Cut(t) }, end}
			cut.through(t, s)

			s.lapses(t)
			swallows := usual
			swallows.name, swallows.lasts = l.String()+" black hole", 13*time.Second
			if l.Dependency == "mysql" {
				swallows.lasts = 22 * time.Second // a call that needs it times out after 10 to 15 s
			}
			swallows.outage = outage{func(t *testing.T) { l.Swallow(t) }, end}
			swallows.through(t, s)

			slow := usual
			slow.name, slow.lasts, slow.outage = l.String()+" slow", 6*time.Second, outage{func(t *testing.T) { l.Slow(t) }, end}
			slow.want = map[string]manner{}
			for call := range usual.want {
				slow.want[call] = either
			}
			slow.through(t, s)
			s.settle(t)
		})
	}
}
