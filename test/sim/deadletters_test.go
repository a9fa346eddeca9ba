package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
)

// Texts that make a message unreadable, until sale.readable.
var (
	noise    = []byte("garbled ")
	openings = [][]byte{[]byte(`"lines":[{"sku_id":"`), []byte(`"at":"`), []byte(`"due_at":"`), []byte(`"order_sn":"`)}
)

// garble spoils one item of a message, or the whole message.
func garble(body []byte, r *rand.Rand) []byte {
	if r.IntN(4) > 0 {
		for _, i := range r.Perm(len(openings)) {
			if n := bytes.Count(body, openings[i]); n > 0 {
				return spoil(body, openings[i], r.IntN(n))
			}
		}
	}
	return append(bytes.Clone(noise), body...)
}

// spoil inserts noise after the n-th opening.
func spoil(body, opening []byte, n int) []byte {
	at := 0
	for ; n >= 0; n-- {
		at += bytes.Index(body[at:], opening) + len(opening)
	}
	return append(append(bytes.Clone(body[:at]), noise...), body[at:]...)
}

func garbled(body []byte) bool { return bytes.Contains(body, noise) }

// readable returns a message as consumers get it: from sale.readable on, without noise.
func (w *world) readable(body []byte) []byte {
	if !garbled(body) || time.Since(w.began) < w.sale.readable {
		return body
	}
	return bytes.ReplaceAll(body, noise, nil)
}

// forge publishes a message that contradicts a purchase in the ledger.
func (w *world) forge() {
	b, err := w.read()
	if err != nil || len(b.ledger) == 0 {
		return
	}
	r := rng(w.seed, "forge")
	row := b.ledger[r.IntN(len(b.ledger))]
	sku := strconv.FormatInt(b.stocks[0].SKU, 10)
	lines := []contract.Line{{SKUID: sku, Qty: 77}}
	var topic string
	var bodies [][]byte
	if w.sale.twin {
		w.reuse(row)
		return
	}
	switch r.IntN(3) {
	case 0:
		topic = contract.TopicReservations
		bodies, err = contract.Encode([]contract.Reservation{{OrderSN: row.sn(), UserID: row.UserID, ActivityID: row.activity(), Lines: lines, ReservedAt: time.Now()}})
	case 1:
		topic = contract.TopicDeductions
		bodies, err = contract.Encode([]contract.Deduction{{
			OrderSN: row.sn(), UserID: row.UserID, ActivityID: row.activity(), Lines: []contract.PricedLine{{SKUID: sku, Qty: 77, Price: 1}}, Currency: "CNY", PayWithinS: 5,
		}})
		if row.OrderCreatedAt == nil {
			return // it would be accepted: it contradicts nothing yet
		}
	case 2:
		topic = contract.TopicOrderEvents
		kinds := []contract.OrderEventType{contract.OrderCreated, contract.OrderPaid, contract.OrderClosed}
		bodies, err = contract.Encode([]contract.OrderEvent{{
			OrderSN: row.sn(), UserID: row.UserID, ActivityID: row.activity(), Lines: lines, Type: kinds[r.IntN(3)], At: time.Now(), Reason: "cancelled",
		}})
	}
	if err != nil {
		w.fail("forge: %v", err)
		return
	}
	w.mu.Lock()
	w.forged[row.sn()] = true
	w.mu.Unlock()
	w.history.note("forger", "! publishes "+topic, bodies[0])
	point := "forger: " + topic
	coverage.pass(point)
	coverage.add(point, happens)
	if err := w.broker.Publish(context.Background(), bus.Message{Topic: topic, Body: bodies[0]}); err != nil {
		w.fail("forge: %v", err)
	}
}

// reuse makes a purchase of another user in the other activity, with the order_sn of a purchase in the ledger, as after a
// reused worker id. It becomes a dead letter, and its rejection releases its units.
func (w *world) reuse(row ledgerRow) {
	if len(w.activities) < 2 {
		return
	}
	a := w.activities[0]
	if a.id == row.activity() {
		a = w.activities[1]
	}
	w.mu.Lock()
	w.forged[row.sn()] = true
	w.mu.Unlock()
	w.betweenCommands(func() {
		requests := []stockgate.Request{{OrderSN: row.sn(), UserID: "twin", Lines: []contract.Line{{SKUID: a.skus[0], Qty: 1}}}}
		verdicts, err := w.gate.Reserve(context.Background(), a.id, requests)
		if err != nil || verdicts[0].Outcome != stockgate.Accepted {
			return // sold out, paused or not there
		}
		point := "forger: order_sn of the other activity"
		coverage.pass(point)
		coverage.add(point, happens)
		w.history.note("forger", "! reserves in activity "+a.id, row.sn())
		if r := w.replica; r != nil && !r.cut.Load() {
			_, _ = stockgate.New(r.rdb, stockgate.Options{}).Reserve(context.Background(), a.id, requests)
		}
	})
}

// withdraw withdraws all units that the gate has left; after a failover these may be too many.
func (w *world) withdraw(a *activity) {
	m, err := w.newCaller("merchant3", "merchant", auth.Merchant)
	if err != nil {
		w.fail("merchant: %v", err)
		return
	}
	for i, sku := range a.skus {
		left, _, err := w.gate.UnitsLeft(context.Background(), a.id)
		if err != nil || left[sku] < 1 {
			continue
		}
		m.insist(http.MethodPost, "http://inventory/v1/merchant/activities/"+a.id+"/stock-adjustments",
			"withdraw-"+strconv.Itoa(i), map[string]any{
				"sku_id": sku, "delta": -left[sku], "reason": "all of SKU " + sku,
			}, 5)
	}
}

// loseClosing removes the closing of an order that inventory has already followed from order's database, as a server
// that restarts without its last commits. It reports whether it did. It does nothing in sales that lose events:
// inventory checks no reservation that the ledger has released, so a lost event of the payment would stay lost.
func (w *world) loseClosing(orderSN string) bool {
	if w.sale.losesOrders || w.sale.losesEvents || w.sale.brokerless.dies || w.sale.setback.of != "" {
		return false
	}
	for range 20 {
		var state string
		err := w.books["inventory"].Raw("SELECT state FROM reservations WHERE order_sn = ?",
			orderSN).Scan(&state).Error
		if err == nil && state == "released" {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.writers["order"] <- struct{}{}
	defer func() { <-w.writers["order"] }()
	res := w.books["order"].Exec("UPDATE orders SET state = 'pending', closed_at = NULL, close_reason = '' "+
		"WHERE order_sn = ? AND state = 'closed'", orderSN)
	if res.Error != nil {
		w.fail("lose the closing of %s: %v", orderSN, res.Error)
	}
	if res.RowsAffected == 1 {
		// The sweep deletes the order's row of close_checks after the closing, so that commit is lost, too.
		sn, _ := strconv.ParseUint(orderSN, 10, 64)
		if err := w.books["order"].Exec("INSERT INTO close_checks (check_at, order_sns) SELECT close_check_at, ? FROM orders "+
			"WHERE order_sn = ?", binary.BigEndian.AppendUint64(nil, sn), orderSN).Error; err != nil {
			w.fail("lose the closing of %s: %v", orderSN, err)
		}
		w.history.note("order", "! loses the closing of "+orderSN)
		w.mu.Lock()
		w.lostClosings[orderSN] = true
		w.mu.Unlock()
		coverage.pass("order: a closing is lost")
		coverage.add("order: a closing is lost", happens)
		return true
	}
	return false
}

func (w *world) lostClosing(orderSN string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lostClosings[orderSN]
}

// operator replays and rejects dead letters and starts reconciliations.
type operator struct {
	*caller
	decided map[string]int // number of replays by dead letter
}

func (w *world) operator() (*operator, error) {
	p, err := w.newCaller("operator", "operator", auth.Operator)
	return &operator{caller: p, decided: map[string]int{}}, err
}

func (o *operator) reject(id string) {
	o.call(http.MethodPost, "http://inventory/v1/merchant/dead-letters/"+id+"/reject", "", nil)
}

// reconcile starts a reconciliation.
func (o *operator) reconcile(activity string) {
	o.call(http.MethodPost, "http://inventory/v1/merchant/activities/"+activity+"/reconciliations", "", nil)
}

// retryRefund retries one of the refunds, which changes nothing: the provider refuses none here.
func (o *operator) retryRefund() {
	b, err := o.w.read()
	if err != nil || len(b.refunds) == 0 {
		return
	}
	id := strconv.FormatInt(b.refunds[o.r.IntN(len(b.refunds))].PaymentID, 10)
	o.call(http.MethodPost, "http://order/internal/v1/refunds/"+id+":retry", "", map[string]any{"by": "operator"})
}

// decide decides about the open dead letters: it replays most, and rejects some and those that were replayed often.
// With mood 0 it skips half of them. It rejects some right after their replay.
func (o *operator) decide(mood int) {
	if !o.w.sale.garbles && o.w.sale.forges == 0 {
		return
	}
	base := "http://inventory/v1/merchant/dead-letters"
	a := o.call(http.MethodGet, base+"?limit=100", "", nil)
	var list struct {
		Items []struct {
			ID string `json:"dead_letter_id"`
		} `json:"items"`
	}
	if a.status != http.StatusOK || a.into(&list) != nil {
		return
	}
	for _, l := range list.Items {
		if mood == 0 && o.r.IntN(2) == 0 {
			continue
		}
		if o.r.IntN(5) == 0 || o.decided[l.ID] > 3 {
			o.reject(l.ID)
			continue
		}
		o.decided[l.ID]++
		o.call(http.MethodPost, base+"/"+l.ID+"/replay", "", nil)
		if o.r.IntN(4) == 0 {
			o.sleep(200*time.Millisecond, 2*time.Second)
			o.reject(l.ID)
		}
	}
}
