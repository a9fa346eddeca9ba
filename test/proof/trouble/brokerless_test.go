package trouble

import (
	"testing"
	"time"

	"flashsale.internal/test/brokerless"
)

// TestSaleWithoutABroker sells 5,000 units with a pay window of a minute while the broker is down for three minutes.
func TestSaleWithoutABroker(t *testing.T) {
	brokerless.Run(t, brokerless.Plan{
		Buyers: 5_000, PerSecond: 20, PayWithin: time.Minute, Before: 20 * time.Second, Down: 3 * time.Minute,
		Deadline: 20 * time.Minute, OrdersWithin: 2 * time.Second, ClosedWithin: 10 * time.Second, PortOffset: 2500,
	})
}
