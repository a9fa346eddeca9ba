package sim

import (
	"fmt"
	"strings"
	"sync"
)

// finalEntries records entries of the gate that reached a terminal state, and entries that were paid. Only a loss in
// Redis may change them afterwards. They are checked after each script, because the reconciler would repair a wrong
// one before the end of the sale.
type finalEntries struct {
	mu    sync.Mutex
	final map[string]string // order_sn -> the entry as it is stored
	paid  map[string]bool
}

// reset runs do, which changes Redis from outside, and drops the records.
func (e *finalEntries) reset(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
	e.final, e.paid = map[string]string{}, map[string]bool{}
}

// changing holds the scripts whose arguments name the entries that they change.
var changing = map[string]bool{
	"script reserve": true, "script settle": true, "script release": true, "script drop": true, "script rejournal": true, "script repair": true,
}

// watchFinal checks the entries that a script of the gate named.
func (w *world) watchFinal(script string, args []any) {
	if !changing[script] {
		return
	}
	gate, held, e := fmt.Sprint(args[3]), fmt.Sprint(args[5]), &w.final // keys as in prelude.lua
	for _, arg := range argvOf(args) {
		sn, ok := arg.(string)
		if !ok || len(sn) < 15 || strings.Trim(sn, "0123456789") != "" {
			continue
		}
		e.mu.Lock()
		mini := w.mini.Load()
		if !mini.Exists(gate) { // the gate is being built
			e.mu.Unlock()
			return
		}
		stored := mini.HGet(held, sn)
		before, ended := e.final[sn]
		stage, _, _ := strings.Cut(stored, "|")
		switch {
		case ended && stored != before:
			w.concern(sn)
			w.fail("order_sn %s was terminal in the gate as %q and became %q (%s)", sn, before, stored, script)
		case e.paid[sn] && stage != "p":
			w.concern(sn)
			w.fail("order_sn %s was paid in the gate and became %q (%s)", sn, stored, script)
		case stage == "x" || stage == "f":
			e.final[sn] = stored
		case stage == "p":
			e.paid[sn] = true
		}
		e.mu.Unlock()
	}
}
