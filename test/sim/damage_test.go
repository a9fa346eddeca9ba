package sim

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

// Damage beside that of entries.
const (
	stockChanged = "stock changed"
	buyerRemoved = "buyer removed"
	nonsense     = "nonsense" // a spoiled entry
)

// damage changes the gate in Redis from outside, in a way that no component of Flashsale does. The reconciler repairs
// it.
func (w *world) damage(activity string, r *rand.Rand) {
	if !w.plan.ended() {
		w.betweenCommands(func() { w.damageGate(activity, r) })
	}
}

func (w *world) damageGate(activity string, r *rand.Rand) {
	prefix := "fs:{" + activity + "}:"
	mini := w.mini.Load()
	gate, held := prefix+"gate", prefix+"held"
	var what string
	var do func(m *miniredis.Miniredis)
	sn := "" // the entry, if one is damaged
	switch r.IntN(5) {
	case 0:
		sn = w.holding(mini, held, r)
		what, do = removed, func(m *miniredis.Miniredis) { m.HDel(held, sn) }
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
		what, do = stockChanged, func(m *miniredis.Miniredis) {
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
		what, do = buyerRemoved, func(m *miniredis.Miniredis) { m.HDel(prefix+"buyers", user) }
	case 4:
		sn = w.holding(mini, held, r)
		if sn == "" {
			return
		}
		what, do = spoiled, func(m *miniredis.Miniredis) { m.HSet(held, sn, nonsense) }
	}
	w.history.note("redis", "! damage: "+what, sn)
	do(mini)
	if w.replica != nil && w.replica.mini != mini {
		do(w.replica.mini)
	}
	if sn != "" {
		w.lose(held, sn, mini.HGet(held, sn), what)
	}
	for sku, n := range imbalances(mini, gate) {
		w.unbalanced[sku] = n
	}
	w.happens(what)
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
