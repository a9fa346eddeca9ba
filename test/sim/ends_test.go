package sim

import (
	"fmt"
	"strings"
	"sync"
)

// ends are the entries of the gate that were seen to be over, and those that were seen to be paid. Nothing but the loss of
// Redis changes what is over, and no paid entry becomes anything else. The reconciler would put both right, so that at rest
// nothing of it were left to see.
type ends struct {
	mu   sync.Mutex
	over map[string]string // order_sn -> the entry as it is stored
	paid map[string]bool
}

// forget does something to Redis that ends may differ after.
func (e *ends) forget(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
	e.over, e.paid = map[string]string{}, map[string]bool{}
}

// changing are the scripts that name the entries they change.
var changing = map[string]bool{
	"script reserve": true, "script settle": true, "script release": true, "script drop": true, "script rejournal": true, "script repair": true,
}

// watchEnds looks at the entries that a script of the gate named.
func (w *world) watchEnds(script string, args []any) {
	if !changing[script] {
		return
	}
	gate, held, e := fmt.Sprint(args[3]), fmt.Sprint(args[5]), &w.ends // keys as in prelude.lua
	for _, arg := range argvOf(args) {
		sn, ok := arg.(string)
		if !ok || len(sn) < 15 || strings.Trim(sn, "0123456789") != "" {
			continue
		}
		e.mu.Lock()
		mini := w.mini.Load()
		if !mini.Exists(gate) { // it is being built
			e.mu.Unlock()
			return
		}
		stored := mini.HGet(held, sn)
		before, ended := e.over[sn]
		stage, _, _ := strings.Cut(stored, "|")
		switch {
		case ended && stored != before:
			w.concern(sn)
			w.fail("order_sn %s was over in the gate as %q, and is %q (%s)", sn, before, stored, script)
		case e.paid[sn] && stage != "p":
			w.concern(sn)
			w.fail("order_sn %s was paid in the gate, and is %q (%s)", sn, stored, script)
		case stage == "x" || stage == "f":
			e.over[sn] = stored
		case stage == "p":
			e.paid[sn] = true
		}
		e.mu.Unlock()
	}
}
