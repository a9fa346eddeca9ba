package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// verdictsOf returns the replies of reserve by order_sn.
func verdictsOf(cmd redis.Cmder) map[string]string {
	c, ok := cmd.(*redis.Cmd)
	if !ok {
		return nil
	}
	replies, _ := c.Val().([]any)
	argv := argvOf(cmd.Args())
	all := map[string]string{}
	for i, reply := range replies {
		if at := 1 + 5*i; at < len(argv) {
			all[fmt.Sprint(argv[at])] = fmt.Sprint(reply)
		}
	}
	return all
}

// watchReserve requires that purchases are refused while Redis is full, and while it has reported for some time that
// little memory is left. tight is for how long it had when the call began. It is called between commands.
func (w *world) watchReserve(cmd redis.Cmder, tight time.Duration) {
	accepted := 0
	for sn, verdict := range verdictsOf(cmd) {
		if strings.HasPrefix(verdict, "accepted") {
			accepted++
		}
		if strings.HasPrefix(verdict, "accepted") && (w.full.Load() || tight > measured && len(w.sale.freezes) == 0) {
			w.concern(sn)
			w.fail("order_sn %s was accepted although Redis is short of memory", sn)
		}
	}
	if accepted > 1 {
		coverage.end("purchases accepted together")
	}
}

// measured is the time within which every process has measured the memory of Redis and no call is in flight that began
// before: a measurement each second, and a call with its repeats lasts up to 1.5 s (GATE_TIMEOUT).
const measured = 2600 * time.Millisecond

// noteConfirmed records the purchases that a 202 may name: the replica has them, or the ledger has. It is called with
// the result of a script that was followed by WAIT.
func (w *world) noteConfirmed(script string, cmd redis.Cmder, confirmed bool) {
	var sns, landed []string
	switch script {
	case "script reserve":
		for sn, verdict := range verdictsOf(cmd) {
			stage, known := strings.CutPrefix(verdict, "known;")
			if known && stage[:1] != "q" {
				landed = append(landed, sn)
			}
			if confirmed {
				sns = append(sns, sn)
			}
		}
	case "script confirm":
		if confirmed {
			for key := range entriesOf(w.mini.Load()) {
				sns = append(sns, key.sn)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sn := range append(sns, landed...) {
		w.confirmed[sn] = true
	}
	for _, sn := range landed {
		if w.carried[sn].IsZero() {
			w.carried[sn] = time.Now()
		}
	}
}

// watchAccepted requires, if a 202 waits for the replica, that the replica or the ledger has the purchase.
func (w *world) watchAccepted(p *purchase) {
	if !w.sale.waits {
		return
	}
	held := "fs:{" + p.activity.id + "}:held"
	stored := w.mini.Load().HGet(held, p.orderSN)
	queued := strings.HasPrefix(stored, "q")
	w.mu.Lock()
	confirmed := w.confirmed[p.orderSN]
	if stored != "" && !queued && w.carried[p.orderSN].IsZero() { // the ledger has it: its 202 waited for no replica
		w.carried[p.orderSN] = time.Now()
	}
	w.mu.Unlock()
	if queued && !confirmed && w.rowState(p.orderSN) == "" {
		w.concern(p.orderSN)
		w.fail("order_sn %s: response 202, and no replica has confirmed the purchase", p.orderSN)
	}
}
