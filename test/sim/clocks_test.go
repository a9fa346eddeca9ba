package sim

import "time"

// now returns the clock of the process. Those that are wrong are corrected when the faults end.
func (p *process) now() time.Time {
	if ahead := p.w.sale.clocks[p.name()]; ahead != 0 && !p.w.plan.ended() {
		return time.Now().Add(ahead)
	}
	return time.Now()
}

// tooEarly bounds the responses not_due to the closing of an order in a sale without faults. Each fault may repeat a
// message, whose closings count anew.
const tooEarly = 12

// noteUnheard records the orders that were closed by a request whose caller had given up on it before.
func (w *world) noteUnheard(response []byte) {
	closed := &outcomes{byOrder: map[string]string{}}
	closed.note(response)
	w.mu.Lock()
	defer w.mu.Unlock()
	for sn, outcome := range closed.byOrder {
		if outcome == "closed" {
			w.unheard[sn] = true
		}
	}
}

// mayCheck reports whether inventory may have to check so many overdue reservations although no message is lost. An
// order may be closed by a request after its caller has repeated it, with the response that the closing came too early.
// By a broker that is ahead, the next closing may come minutes later; one that loses delayed messages may lose it.
func (w *world) mayCheck(overdue int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (w.sale.brokerAhead > 0 || w.sale.losesTimers) && overdue <= len(w.unheard)
}

// noteEarly counts closings that arrived early, and requires that a wrong clock makes no message spin.
func (w *world) noteEarly(orderSN string) {
	most := tooEarly * (1 + w.plan.faults())
	w.mu.Lock()
	w.early[orderSN]++
	n := w.early[orderSN]
	w.mu.Unlock()
	if n > most {
		w.concern(orderSN)
		w.fail("order_sn %s: order responded %d times that its closing is not due, at most %d are right", orderSN, n, most)
		time.Sleep(time.Second) // it may spin without any pause
	}
}
