package sim

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"flashsale.internal/pkg/auth"
)

// Outcomes of an order that a merchant has cancelled in a review, besides those of the API.
const (
	requested = "requested" // there was no response yet, or none at all
	notFound  = "not_found"
)

// runReview reviews the orders of an activity before fulfilment: the merchant cancels a third of them, all at once or
// in some calls.
func (w *world) runReview(n int) {
	act := w.activities[n]
	m, err := w.newCaller("reviewer"+strconv.Itoa(n), "merchant", auth.Merchant)
	if err != nil {
		w.fail("reviewer: %v", err)
		return
	}
	base := "http://inventory/v1/merchant/activities/" + act.id + "/review"
	for range 1 + m.r.IntN(3) {
		m.sleep(time.Second, time.Second+(w.sale.window+w.sale.payWithin)/2)
		if w.plan.ended() {
			return
		}
		m.call(http.MethodGet, base, "", nil)
		if sns := w.toCancel(m, act); len(sns) > 0 {
			r := review{m, base + "/cancel", map[string]any{"order_sns": sns, "reason": "robots"}}
			if !w.cancel(r, 1+m.r.IntN(20)) {
				w.mu.Lock()
				w.leftReviews = append(w.leftReviews, r)
				w.mu.Unlock()
			}
		}
	}
}

// review is a call by which a merchant cancels orders.
type review struct {
	by   *caller
	url  string
	body map[string]any
}

// cancel makes the call of a review, at most so many times, and reports whether its outcomes are known.
func (w *world) cancel(r review, most int) bool {
	a := r.by.insist(http.MethodPost, r.url, "", r.body, most)
	w.noteReview(a)
	return a.status == http.StatusOK
}

// finishReviews repeats half of the reviews that had no response. Now that no fault happens, each has one. The others stay
// given up, and the services finish them alone.
func (w *world) finishReviews() {
	for _, r := range w.leftReviews {
		if r.by.r.IntN(2) == 0 {
			coverage.end("review given up")
			continue
		}
		if !w.cancel(r, 200) {
			w.fail("a review that was given up has no outcome after the faults either: %s", r.url)
		}
		coverage.end("review repeated after the faults")
	}
}

// toCancel returns a third of the accepted purchases of the activity, and notes that they may be cancelled from now on.
func (w *world) toCancel(m *caller, act *activity) (sns []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sn := range slices.Sorted(maps.Keys(w.purchases)) {
		p := w.purchases[sn]
		if p.activity != act || p.accepted.IsZero() || m.r.IntN(3) > 0 {
			continue
		}
		sns = append(sns, sn)
		if w.reviewed[sn] == "" {
			w.reviewed[sn] = requested
		}
	}
	return sns
}

// noteReview notes the outcomes that the merchant has read.
func (w *world) noteReview(a response) {
	var got struct {
		Results []struct {
			SN      string `json:"order_sn"`
			Outcome string
		}
	}
	if a.status != http.StatusOK || a.into(&got) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range got.Results {
		w.reviewed[r.SN] = r.Outcome
		coverage.end("review " + r.Outcome)
		if w.noBroker.Load() && r.Outcome != notFound {
			coverage.end("review without the broker")
		}
	}
}

// mayCancel reports whether a merchant may have cancelled the order.
func (w *world) mayCancel(orderSN string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reviewed[orderSN] != ""
}

// checkReviews requires that an order that was cancelled in a review keeps neither money nor units, unless a
// database has lost that, and that no other order was refunded for a review.
func (w *world) checkReviews(f *findings, b books, ledger map[string]ledgerRow, orders map[string]orderRow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for sn, outcome := range w.reviewed {
		if outcome == requested || outcome == notFound || w.setBack[sn] || w.lostClosings[sn] {
			continue
		}
		o, row := orders[sn], ledger[sn]
		if o.State == "paid" || o.State == "pending" && !o.Tombstone || row.State == "sold" || row.State == "reserved" {
			f.add(sn, "order %s was cancelled in a review (%s), and is %q, its reservation is %q", sn, outcome, o.State,
				row.State)
		}
	}
	for _, r := range b.refunds {
		if sn := strconv.FormatInt(r.OrderSN, 10); r.Reason == "review" && w.reviewed[sn] == "" {
			f.add(sn, "order %s was refunded for a review that no merchant made", sn)
		}
	}
}
