package storm

import (
	"testing"
	"time"

	"flashsale.internal/test/rig"
	"flashsale.internal/test/storm"
)

func TestMain(m *testing.M) { rig.Main(m) }

// TestStorm sells 10,000 units to 12,000 buyers within two minutes. Four minutes after the start, unpaid orders expire
// for two minutes. Each service and each dependency is killed once in each of these times.
func TestStorm(t *testing.T) {
	const payWithin = 240 * time.Second
	storm.Run(t, storm.Plan{
		Units: 10_000, Buyers: 12_000, ArrivalsPerSecond: 100, PayWithin: payWithin,
		Phases: []storm.Phase{
			{Name: "buying", From: 0, To: 120 * time.Second},
			{Name: "closing", From: payWithin, To: payWithin + 120*time.Second},
		},
		Deadline:   20 * time.Minute, // for a machine that is three times too slow
		Seed:       storm.Seed(t),
		PortOffset: 4500,
	})
}
