package sim

import (
	"strings"
	"time"
)

// now returns the clock of the process. Those that are wrong are corrected when the faults end.
func (p *process) now() time.Time {
	if ahead := p.w.sale.clocks[p.name()]; ahead != 0 && !p.w.plan.ended() {
		return time.Now().Add(ahead)
	}
	return time.Now()
}

// tooEarly is the number of responses not_due to the closing of an order from which a wrong clock makes messages spin.
const tooEarly = 12

// noteEarly counts closings that arrived early.
func (w *world) noteEarly(orderSN string) {
	w.mu.Lock()
	w.early[orderSN]++
	n := w.early[orderSN]
	w.mu.Unlock()
	if n > 10*tooEarly {
		time.Sleep(time.Second) // the message may spin without any pause
	}
	if n == tooEarly+1 && w.plan.rate <= 0.03 && !strings.Contains(w.plan.focus, "order-close") { // few are repeated
		w.concern(orderSN)
		w.fail("order_sn %s: order responded %d times that its closing is not due", orderSN, n)
	}
}
