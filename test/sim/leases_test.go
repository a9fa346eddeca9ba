package sim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"flashsale.internal/pkg/ordersn"
)

// issue is one order_sn that a process issued.
type issue struct {
	ms   int64
	by   *process
	text string
}

// reissue is the time within which a worker id cannot come back to a process after another one issued with it: at least
// one lease.
const reissue = 5 * time.Second

// noteIssued checks that processes never issue with the same worker id at the same time.
func (w *world) noteIssued(by *process, body []byte) {
	var path struct {
		OrderSN string `json:"order_sn"`
	}
	if json.Unmarshal(body, &path) != nil {
		return
	}
	sn, err := ordersn.Parse(path.OrderSN)
	if err != nil {
		w.fail("order_sn %q: %v", path.OrderSN, err)
		return
	}
	now := issue{sn.Time.UnixMilli(), by, path.OrderSN}
	w.mu.Lock()
	list := append(w.issued[sn.Worker], now)
	slices.SortStableFunc(list, func(a, b issue) int { return int(a.ms - b.ms) })
	w.issued[sn.Worker] = list
	w.mu.Unlock()
	for i := range list {
		for j := i + 1; j < len(list) && list[j].ms-list[i].ms <= reissue.Milliseconds(); j++ {
			if list[i].by == list[j].by {
				continue
			}
			back := slices.ContainsFunc(list[j:], func(l issue) bool {
				return l.by == list[i].by && l.ms-list[i].ms <= reissue.Milliseconds()
			})
			if back || list[i].ms == list[j].ms {
				w.concern(list[i].text)
				w.concern(list[j].text)
				w.fail("two processes issued with worker id %d at the same time: %s and %s", sn.Worker, list[i].text, list[j].text)
				return
			}
		}
	}
}

// requestPaths requests paths for some seconds, in turn from all processes.
func (w *world) requestPaths() {
	began := time.Now()
	for n := 0; time.Since(began) < 9*time.Second && !w.plan.ended(); n++ {
		b, err := w.newCaller("path"+strconv.Itoa(n%20), "buyer")
		if err != nil {
			w.fail("buyer: %v", err)
			return
		}
		a := w.activities[n%len(w.activities)]
		b.call(http.MethodPost, "http://seckill/v1/activities/"+a.id+"/paths", "", map[string]any{})
		b.sleep(50*time.Millisecond, 150*time.Millisecond)
	}
}
