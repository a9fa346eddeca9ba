package e2e

import (
	"testing"
	"time"

	"flashsale.internal/test/redisless"
)

// TestSaleWithoutRedis kills Redis for half a minute in a burst of purchases of a degraded sale. test/proof/trouble runs
// the same at full size, with an empty Redis, and without the setting.
func TestSaleWithoutRedis(t *testing.T) {
	t.Parallel() // dependencies of its own
	redisless.Run(t, redisless.Plan{
		Burst: 1200, MinRate: 100, MinUnlanded: 1, Down: 30 * time.Second, PerSecond: 20, Arrivals: 10,
		Deadline: 8 * time.Minute, PortOffset: 2700,
	})
}
