package e2e

import (
	"testing"
	"time"

	"flashsale.internal/test/brokerless"
)

// TestSaleWithoutABroker sells 800 units while the broker is down for 45 s. test/proof/trouble runs the same at full
// size. The bounds are for a machine that other tests share.
func TestSaleWithoutABroker(t *testing.T) {
	t.Parallel() // dependencies of its own
	brokerless.Run(t, brokerless.Plan{
		Buyers: 800, PerSecond: 8, PayWithin: 10 * time.Second, Before: 5 * time.Second, Down: 45 * time.Second,
		Deadline: 8 * time.Minute, OrdersWithin: 15 * time.Second, ClosedWithin: 25 * time.Second, PortOffset: 2500,
	})
}
