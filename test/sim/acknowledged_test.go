package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// acknowledged checks that the effect of a message is committed when its consumer acknowledges it.
func (w *world) acknowledged(service, topic string, body []byte, closed *outcomes) {
	switch service + " " + topic {
	case "inventory " + contract.TopicReservations:
		good, _ := contract.Decode[contract.Reservation](body)
		for _, it := range good {
			if w.rowState(it.OrderSN) == "" && !w.isForged(it.OrderSN) {
				w.unfollowed(it.OrderSN, "the reservation is not in the ledger")
			}
		}
	case "inventory " + contract.TopicOrderEvents:
		good, _ := contract.Decode[contract.OrderEvent](body)
		for _, ev := range good {
			if (ev.Type == contract.OrderPaid || ev.Type == contract.OrderClosed) &&
				w.rowState(ev.OrderSN) == "reserved" && !w.isForged(ev.OrderSN) {
				w.unfollowed(ev.OrderSN, "the ledger has not followed "+string(ev.Type))
			}
		}
	case "inventory " + contract.TopicOrderClose:
		good, _ := contract.Decode[contract.OrderClose](body)
		for _, c := range good {
			for _, sn := range c.OrderSNs {
				outcome := closed.of(sn)
				final := slices.Contains([]string{"closed", "paid", "refunded", "unknown"}, outcome)
				if outcome == "" && !w.mayPutOff(closed, sn) || final && w.rowState(sn) == "reserved" {
					w.unfollowed(sn, fmt.Sprintf("order responded %q to its closing, and the reservation is still reserved", outcome))
				}
			}
		}
	case "order " + contract.TopicDeductions:
		good, _ := contract.Decode[contract.Deduction](body)
		for _, d := range good {
			if !w.hasOrder(d.OrderSN) && !w.isForged(d.OrderSN) {
				w.unfollowed(d.OrderSN, "the order does not exist")
			}
		}
	}
}

// mayPutOff reports whether inventory may acknowledge the closing without a call: an import after a restore put it off.
func (w *world) mayPutOff(closed *outcomes, orderSN string) bool {
	return w.sale.setback.of != "" && (closed.isPutOff(orderSN) || w.importing())
}

func (w *world) unfollowed(orderSN, what string) {
	w.concern(orderSN)
	w.fail("order_sn %s: a message was acknowledged, but %s", orderSN, what)
}

func (w *world) isForged(orderSN string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forged[orderSN]
}

func (w *world) rowState(orderSN string) (state string) {
	if err := w.books["inventory"].Raw("SELECT state FROM reservations WHERE order_sn = ?",
		orderSN).Scan(&state).Error; err != nil {
		w.fail("read reservation %s: %v", orderSN, err)
	}
	return state
}

// landedAt returns when a purchase came into the ledger; zero if it is not there.
func (w *world) landedAt(orderSN string) time.Time {
	var rows []struct{ LandedAt time.Time }
	if err := w.books["inventory"].Raw("SELECT landed_at FROM reservations WHERE order_sn = ?",
		orderSN).Scan(&rows).Error; err != nil {
		w.fail("read reservation %s: %v", orderSN, err)
	}
	if len(rows) == 0 {
		return time.Time{}
	}
	return rows[0].LandedAt
}

func (w *world) hasOrder(orderSN string) bool {
	sn, err := strconv.ParseInt(orderSN, 10, 64)
	if err != nil {
		return false
	}
	var n int64
	if err := w.books["order"].Raw("SELECT COUNT(*) FROM orders WHERE order_sn = ?", sn).Scan(&n).Error; err != nil {
		w.fail("read order %s: %v", orderSN, err)
	}
	return n > 0
}

// outcomes holds the outcomes that order returned for closings during one delivery.
type outcomes struct {
	mu      sync.Mutex
	byOrder map[string]string
	putOff  map[string]bool // closings that were published again instead, as during an import
}

type outcomesKey struct{}

// notePutOff records that a closing was published again.
func (a *outcomes) notePutOff(body []byte) {
	good, _ := contract.Decode[contract.OrderClose](body)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range good {
		for _, sn := range c.OrderSNs {
			a.putOff[sn] = true
		}
	}
}

func (a *outcomes) isPutOff(orderSN string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.putOff[orderSN]
}

func (a *outcomes) of(orderSN string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byOrder[orderSN]
}

// note records the outcomes, and returns the order_sns whose closing came early.
func (a *outcomes) note(body []byte) (early []string) {
	var doc struct {
		Results []struct {
			OrderSN string `json:"order_sn"`
			Outcome string `json:"outcome"`
		} `json:"results"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range doc.Results {
		a.byOrder[r.OrderSN] = r.Outcome
		if r.Outcome == "not_due" {
			early = append(early, r.OrderSN)
		}
	}
	return early
}
