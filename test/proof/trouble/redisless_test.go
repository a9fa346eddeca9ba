package trouble

import (
	"testing"
	"time"

	"flashsale.internal/test/redisless"
)

// TestSaleWithoutRedis kills Redis for two minutes while at least 1,000 purchases a second are accepted and at least 500
// are not in the ledger.
func TestSaleWithoutRedis(t *testing.T) {
	plan := redisless.Plan{
		Burst: 8_000, MinRate: 1000, MinUnlanded: 500, Down: 2 * time.Minute, PerSecond: 100, Arrivals: 60,
		Deadline: 20 * time.Minute, PortOffset: 2700,
	}
	t.Run("with its data", func(t *testing.T) { redisless.Run(t, plan) })
	t.Run("empty", func(t *testing.T) {
		plan := plan
		plan.Empty = true
		redisless.Run(t, plan)
	})
	t.Run("without the setting", func(t *testing.T) {
		plan := plan
		plan.PerSecond = 0
		redisless.Run(t, plan)
	})
}
