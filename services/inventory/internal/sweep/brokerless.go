package sweep

import "time"

const (
	// brokerlessAge is the age from which purchases that have not landed, and deductions without an order, are repeated
	// while messages are calls. RocketMQ had confirmed them and holds them until it returns, if it does. It equals the
	// bound of a call, so nothing older is in flight.
	brokerlessAge = 10 * time.Second

	// brokerlessPages bounds the pages of one gate in a round of Journal while messages are calls: 20,000 purchases in
	// 5 s are more than calls land.
	brokerlessPages = 20
)

// transport follows from round to round whether messages are calls.
type transport struct {
	brokerlessFor func() time.Duration // as in the Deps of the sweeps
	last          time.Duration        // in the last round
}

// next returns for how long messages have been calls, and whether this has begun or ended since the last round.
func (t *transport) next() (brokerlessFor time.Duration, switched bool) {
	now := t.brokerlessFor()
	switched = now < t.last || now > 0 && t.last == 0
	t.last = now
	return now, switched
}
