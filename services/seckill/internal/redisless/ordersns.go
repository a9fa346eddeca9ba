package redisless

import (
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/seckill/internal/core"
)

// OrderSNs implements core.OrderSNs: with a worker id of inventory while a sale is redisless, if this process has one,
// and else with that of Redis.
type OrderSNs struct {
	core.OrderSNs
	Redisless core.OrderSNs // nil if the ids need no Redis
	Watch     *Watch
}

// Next implements core.OrderSNs.
func (o OrderSNs) Next(userID string) (string, error) {
	if o.Redisless != nil && o.Watch.Redisless() {
		if sn, err := o.Redisless.Next(userID); err == nil {
			return sn, nil
		}
	}
	return o.OrderSNs.Next(userID)
}

// issuedRedisless reports whether an order_sn has a worker id of inventory.
func issuedRedisless(orderSN string) bool {
	sn, err := ordersn.Parse(orderSN)
	return err == nil && sn.Worker >= ordersn.RedisWorkers
}
