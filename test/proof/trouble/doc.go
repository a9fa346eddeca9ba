// Package trouble tests the whole chain while a dependency or a service is down, the network fails, Redis fails over or
// is full, a backlog waits, the gate is damaged, a sale is flooded with calls or attacked by programs, the payment
// provider is slow and down, several of these happen to one sale, every secret is rotated, or the release before is
// upgraded. It takes too long for `make test`; `make proof LANE=trouble` runs it.
package trouble
