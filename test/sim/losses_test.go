package sim

import (
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// entryLoss is the latest loss of an entry of the gate.
type entryLoss struct {
	at   time.Time
	left int // rank of the status that the buyer may read from now on
	why  map[string]bool
}

// heals is the time within which the entry of a purchase that the ledger has must be in the gate again, and its buyer
// must read the status from before the loss.
const heals = 30 * time.Second

// rests is for how long at most the reconciler, which alone finds damage, compares no entries that did not change: six
// times inventory.reconcile_full_every, or ten times as long as the last comparison took, which late calls make long.
const rests = 2 * time.Minute

// healsBy returns when a loss must have healed. A message that the broker has while it is unavailable brings nothing
// back before its return.
func (w *world) healsBy(l entryLoss, since time.Time) time.Time {
	if b := w.sale.brokerless; b.happens() {
		if returns := w.selling.Add(b.from + b.lasts); returns.After(since) {
			since = returns
		}
	}
	if r := w.sale.redisless; r.happens() { // then the sale returns to its gate
		if returns := w.selling.Add(r.from + r.lasts + 15*time.Second); returns.After(since) {
			since = returns
		}
	}
	if l.why[removed] || l.why[spoiled] {
		return since.Add(heals + rests)
	}
	return since.Add(heals)
}

// Causes of an entryLoss.
const (
	inLoss     = "lost"     // all entries of a gate, or of Redis
	inFailover = "failover" // the entry differs on the promoted replica
	removed    = "entry removed"
	spoiled    = "entry spoiled"
)

// rankOfEntry returns the rank of the status that a buyer reads from a stored entry.
func rankOfEntry(stored string) int {
	stage, _, _ := strings.Cut(stored, "|")
	return map[string]int{"q": 1, "l": 1, "c": 2, "p": 3, "x": 3, "f": 3}[stage]
}

// lose records that Redis lost an entry and has left that form of it. It is called between commands.
func (w *world) lose(held, sn, left, why string) {
	if e, known := w.final[held+" "+sn]; known {
		e.stored = ""
		w.final[held+" "+sn] = e
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lost[sn]
	if l.why == nil {
		l.why = map[string]bool{}
	}
	l.at, l.left = time.Now(), rankOfEntry(left)
	l.why[why] = true
	w.lost[sn] = l
	if at, is := w.spoiled[sn]; is && at.IsZero() && left != nonsense {
		w.spoiled[sn] = time.Now()
	}
	if left == nonsense {
		w.spoiled[sn] = time.Time{}
	}
}

// entryKey names an entry: the hash of its gate, and its order_sn.
type entryKey struct{ held, sn string }

// entriesOf returns the entries of all gates.
func entriesOf(m *miniredis.Miniredis) map[entryKey]string {
	all := map[entryKey]string{}
	for _, key := range m.Keys() {
		if strings.HasPrefix(key, "fs:{") && strings.HasSuffix(key, "}:held") {
			sns, _ := m.HKeys(key)
			for _, sn := range sns {
				all[entryKey{key, sn}] = m.HGet(key, sn)
			}
		}
	}
	return all
}

// noteLoss records that all entries get lost. The new gate has every purchase of the ledger, at least as far as its
// buyer has read.
func (w *world) noteLoss(m *miniredis.Miniredis) {
	for key, stored := range entriesOf(m) {
		w.lose(key.held, key.sn, stored, inLoss)
	}
	clear(w.unbalanced)
}

// noteFailover records which entries the promoted replica lacks or has in an earlier state: exactly those that were
// written after its offset.
func (w *world) noteFailover(old, promoted *miniredis.Miniredis) {
	was, is := entriesOf(old), entriesOf(promoted)
	for key := range is {
		if _, known := was[key]; !known {
			was[key] = ""
		}
	}
	for key, stored := range was {
		if is[key] != stored {
			w.lose(key.held, key.sn, is[key], inFailover)
		}
	}
	clear(w.unbalanced)
	for _, key := range promoted.Keys() {
		if strings.HasPrefix(key, "fs:{") && strings.HasSuffix(key, "}:gate") {
			for sku, n := range imbalances(promoted, key) {
				w.unbalanced[sku] = n
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[inFailover] = true
}

// noteReadable records that a spoiled entry was repaired.
func (w *world) noteReadable(sn, stored string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, is := w.spoiled[sn]; is && at.IsZero() && stored != nonsense {
		w.spoiled[sn] = time.Now()
	}
}

// mayFall reports whether the buyer of the purchase may read a status that is lower than the last one.
func (w *world) mayFall(orderSN, status string) bool {
	if w.sale.redisless.twoViews(time.Since(w.selling)) {
		return true
	}
	l, lost := w.lost[orderSN]
	return lost && time.Now().Before(w.healsBy(l, l.at)) && rank[status] >= l.left
}

// mayBeMissing reports whether the gate may have no entry of a purchase: Redis lost it, and the ledger does not have it,
// or only since a short time. For how long injected faults keep a message from landing is not bounded.
func (w *world) mayBeMissing(orderSN string) bool {
	w.mu.Lock()
	l, lost := w.lost[orderSN]
	excused := lost && !w.waited(orderSN, l)
	since, carried := w.carried[orderSN]
	w.mu.Unlock()
	if !excused {
		return false
	}
	landed := w.landedAt(orderSN)
	if !carried || landed.IsZero() {
		return true
	}
	for _, at := range []time.Time{l.at, landed} {
		if at.After(since) {
			since = at
		}
	}
	return time.Now().Before(w.healsBy(l, since))
}

// isLost reports whether Redis lost a purchase that no relay had published in a readable form.
func (w *world) isLost(orderSN string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, lost := w.lost[orderSN]
	_, carried := w.carried[orderSN]
	return lost && !carried && !w.waited(orderSN, l)
}

// waited reports whether the 202 of a purchase waited for the replica, so that a failover cannot lose it. The caller
// holds mu.
func (w *world) waited(orderSN string, l entryLoss) bool {
	_, carried := w.carried[orderSN]
	return w.sale.waits && !carried && len(l.why) == 1 && l.why[inFailover] && !w.purchases[orderSN].accepted.IsZero()
}

// unreadableSince reports whether an entry of a gate was unreadable at any time since then, which may cause responses
// with 500.
func (w *world) unreadableSince(began time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, until := range w.spoiled {
		if until.IsZero() || until.After(began) {
			return true
		}
	}
	return false
}
