package e2e

import (
	"testing"
	"time"

	"flashsale.internal/test/storm"
)

// TestShortStorm sells 2,000 units to 2,400 buyers within half a minute. Unpaid orders expire 50 s later, and their
// units are sold again. Each service and each dependency is killed once. test/proof/storm runs the same at full size.
func TestShortStorm(t *testing.T) {
	t.Parallel() // dependencies of its own, and most of the time it waits for deadlines
	const (
		buying    = 30 * time.Second
		payWithin = 50 * time.Second
	)
	storm.Run(t, storm.Plan{
		Units: 2_000, Buyers: 2_400, ArrivalsPerSecond: 80, PayWithin: payWithin,
		Phases:     []storm.Phase{{Name: "sale", From: 0, To: payWithin + buying}},
		Deadline:   8 * time.Minute, // for a machine that is three times too slow
		Seed:       storm.Seed(t),
		PortOffset: 5500,
	})
}
