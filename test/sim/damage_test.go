package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// damage changes the gate in Redis from outside, in a way that no component of Flashsale does. The reconciler repairs
// it.
func (w *world) damage(activity string, r *rand.Rand) {
	if w.plan.ended() {
		return
	}
	prefix := "fs:{" + activity + ":0}:"
	mini := w.mini.Load()
	gate, held := prefix+"gate", prefix+"held"
	var what string
	var do func(m *miniredis.Miniredis)
	sn := "" // the entry, if one is damaged
	switch r.IntN(5) {
	case 0:
		sn = w.holding(mini, held, r)
		what, do = "entry removed", func(m *miniredis.Miniredis) { m.HDel(held, sn) }
		if sn == "" {
			return
		}
	case 1, 2:
		fields, _ := mini.HKeys(gate)
		fields = slices.DeleteFunc(fields, func(f string) bool { return !strings.HasPrefix(f, "s:") })
		if len(fields) == 0 {
			return
		}
		field, by := fields[r.IntN(len(fields))], r.IntN(9)-4
		what, do = "stock changed", func(m *miniredis.Miniredis) {
			if m.Exists(gate) { // a replica may not have the gate
				m.HIncrBy(gate, field, by)
			}
		}
	case 3:
		users, _ := mini.HKeys(prefix + "buyers")
		if len(users) == 0 {
			return
		}
		user := users[r.IntN(len(users))]
		what, do = "buyer removed", func(m *miniredis.Miniredis) { m.HDel(prefix+"buyers", user) }
	case 4:
		sn = w.holding(mini, held, r)
		if sn == "" {
			return
		}
		what, do = "entry spoiled", func(m *miniredis.Miniredis) { m.HSet(held, sn, "nonsense") }
	}
	w.mu.Lock()
	if sn != "" {
		w.damaged[sn] = time.Now()
	}
	if what == "entry spoiled" {
		w.nonsense = time.Now()
	}
	w.mu.Unlock()
	w.history.note("redis", "! damage: "+what)
	coverage.pass("redis: " + what)
	coverage.add("redis: "+what, happens)
	w.final.reset(func() { do(mini) })
	if w.replica != nil && w.replica.mini != mini {
		do(w.replica.mini)
	}
}

// heals is the time for which a buyer may read an earlier status after an entry of the gate was lost or damaged.
const heals = 30 * time.Second

// isDamaged reports whether the entry was removed or spoiled and may not be repaired yet: its buyer may get 404, or
// repeat the purchase, which creates the entry again. The caller holds mu.
func (w *world) isDamaged(orderSN string) bool {
	at, ok := w.damaged[orderSN]
	return ok && time.Since(at) < heals
}

// spoiled reports whether an entry of the gate may still be unreadable, which may cause responses with 500.
func (w *world) spoiled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.nonsense.IsZero() && time.Since(w.nonsense) < 2*time.Minute
}

// holding returns an entry that holds units.
func (w *world) holding(m *miniredis.Miniredis, held string, r *rand.Rand) string {
	sns, _ := m.HKeys(held)
	sns = slices.DeleteFunc(sns, func(sn string) bool { return strings.ContainsAny(m.HGet(held, sn)[:1], "xf") })
	if len(sns) == 0 {
		return ""
	}
	slices.Sort(sns)
	return sns[r.IntN(len(sns))]
}
