// Package redisless sells during an outage of Redis, on real dependencies, with and without a degraded sale.
package redisless
