package sweep

import "time"

const (
	// brokerlessAge is the age from which purchases that have not landed, and deductions without an order, are repeated
	// once messages are calls, if they were sent before: RocketMQ had confirmed them and holds them until it returns, if
	// it does. It equals the bound of a call. What is sent by calls is handled once it is confirmed.
	brokerlessAge = 10 * time.Second

	// brokerlessPages bounds the pages of one gate in a round of Journal while messages are calls: 20,000 purchases in
	// 5 s are more than calls land.
	brokerlessPages = 20

	// sameOutage is for how long messages go by the broker at most for an outage to go on afterwards. A link that breaks
	// again and again repeats nothing a second time.
	sameOutage = time.Minute
)

// transport follows from round to round whether messages are calls.
type transport struct {
	brokerlessFor func() time.Duration // as in the Deps of the sweeps
	began, last   time.Time            // of the outage; the last round in which messages were calls
}

// next returns for how long messages have been calls, and whether this outage has begun since the last round. now is the
// clock that stamped what the sweep repeats.
func (t *transport) next(now time.Time) (brokerlessFor time.Duration, switched bool) {
	d := t.brokerlessFor()
	if d == 0 {
		return 0, false
	}
	if t.last.IsZero() || now.Sub(t.last) >= sameOutage {
		t.began, switched = now.Add(-d), true
	}
	t.last = now
	return max(d, now.Sub(t.began)), switched
}

// sentBefore returns the time before which something was sent that is repeated while messages are calls.
func sentBefore(now time.Time, brokerlessFor time.Duration) time.Time {
	return now.Add(-max(brokerlessFor, brokerlessAge))
}
