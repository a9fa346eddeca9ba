package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
)

const (
	// ordersWithin bounds the time from the switch to calls until each purchase that was accepted before the broker
	// died has an order in the ledger: an age of 10 s, and the calls.
	ordersWithin = 20 * time.Second
	// calmAfterDeath is the time from the broker's death for which nothing else fails, so that the bound can be checked.
	calmAfterDeath = 2 * ordersWithin
)

// killsBroker makes the broker die in its time of absence, with messages of one topic.
func (s *sale) killsBroker(r *rand.Rand) {
	topics := []string{contract.TopicReservations, contract.TopicDeductions, contract.TopicOrderEvents}
	s.brokerless.dies, s.brokerless.holds = true, topics[r.IntN(len(topics))]
}

// fitBrokersDeath drops faults that a broker's death may not meet: those by which Redis loses a purchase whose message
// the broker loses too, and those that delay its order by themselves.
func (s *sale) fitBrokersDeath() {
	if !s.brokerless.dies {
		return
	}
	s.brokerless.apart, s.brokerless.lasts = nil, max(s.brokerless.lasts, calmAfterDeath)
	s.window, s.buyers = max(s.window, 10*time.Second), s.buyers+8 // who buy before, while it stalls, and after its death
	for i := range s.stock {
		s.stock[i] += 8
	}
	s.brokerless.from, s.brokerless.stalls = 2*time.Second, s.window/3
	s.failover, s.acquires, s.alone, s.greedy = 0, false, false, false
	s.losses, s.damages, s.full, s.tight, s.forges, s.twin = nil, nil, 0, 0, 0, false
	s.garbles, s.loudest, s.latecomers, s.freezes, s.clocks = false, "", false, nil, nil
	s.journalMax = 1000
}

// stallBroker makes the broker deliver no message of the topic for a time.
func (w *world) stallBroker() {
	w.stalled.Store(true)
	w.history.note("broker", "! holds messages", w.sale.brokerless.holds)
	time.Sleep(w.sale.brokerless.stalls)
}

// killBroker makes the broker lose all messages that it has.
func (w *world) killBroker() {
	const point = "broker: dies with what it confirmed"
	w.plan.calm(calmAfterDeath)
	w.brokerLife.Add(1)
	w.stalled.Store(false)
	w.history.note("broker", "! dies with what it confirmed")
	coverage.pass(point)
	coverage.add(point, happens)
}

// lifeKey begins the key of a message that names the life of the broker that confirmed it.
const lifeKey = "life "

// ofThisLife marks a message that the broker confirms now.
func (w *world) ofThisLife(m bus.Message) bus.Message {
	m.Keys = append(slices.Clip(m.Keys), fmt.Sprint(lifeKey, w.brokerLife.Load()))
	return m
}

// diedWith reports whether the broker died with the message.
func (w *world) diedWith(m bus.Message) bool {
	now := fmt.Sprint(lifeKey, w.brokerLife.Load())
	return slices.ContainsFunc(m.Keys, func(k string) bool { return strings.HasPrefix(k, lifeKey) && k != now })
}

// noteCall records when messages become calls.
func (w *world) noteCall() {
	if w.noBroker.Load() {
		w.switched.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// checkBrokersDeath requires that each purchase that was accepted before the broker died has an order in the ledger
// within ordersWithin of the switch to calls. Without a message there is no switch.
func (w *world) checkBrokersDeath(died time.Time) {
	w.mu.Lock()
	var lacking []string
	for _, p := range w.purchases {
		if !p.accepted.IsZero() && !p.accepted.After(died) {
			lacking = append(lacking, p.orderSN)
		}
	}
	w.mu.Unlock()
	lacking = slices.DeleteFunc(lacking, w.orderKnown)
	for w.switched.Load() == 0 {
		if time.Since(died) >= calmAfterDeath-ordersWithin {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Until(time.Unix(0, w.switched.Load()).Add(ordersWithin)))
	for _, sn := range lacking {
		if !w.orderKnown(sn) {
			w.concern(sn)
			w.fail("order_sn %s was accepted before the broker died, and has no order %s after the switch", sn, ordersWithin)
		}
		coverage.end("order after the broker's death")
	}
}

// orderKnown reports whether the ledger has the order of a purchase, or has ended it.
func (w *world) orderKnown(orderSN string) bool {
	var n int64
	if err := w.books["inventory"].Raw("SELECT COUNT(*) FROM reservations WHERE order_sn = ? AND "+
		"(order_created_at IS NOT NULL OR state <> 'reserved')", orderSN).Scan(&n).Error; err != nil {
		w.fail("read reservation %s: %v", orderSN, err)
	}
	return n > 0
}

// repeatAfter returns the pause before the sweeps of inventory repeat a message. It is long, as in production, if only
// the switch to calls may make it short.
func (w *world) repeatAfter() (first, limit time.Duration) {
	if w.sale.brokerless.dies {
		return time.Minute, time.Minute
	}
	return 3 * time.Second, 12 * time.Second
}
