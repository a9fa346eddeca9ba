package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finalEntry is what is remembered of an entry of the gate that is terminal or paid, for the rest of the sale. It is
// checked after each script, because the reconciler would repair a wrong one before the end of the sale.
type finalEntry struct {
	stage  string // x, f or p
	stored string // the entry as it is stored; "" after Redis lost it: then only its stage must be the same again
}

// trimmed reports whether the gate may have trimmed the entry: it ended 24 h ago or earlier. A message that comes later
// ends it once more.
func (e finalEntry) trimmed() bool {
	parts := strings.Split(e.stored, "|")
	if len(parts) < 6 || e.stage == "p" {
		return false
	}
	ended, err := strconv.ParseInt(parts[5], 10, 64)
	return err == nil && time.Since(time.UnixMilli(ended)) >= 24*time.Hour
}

// changing holds the scripts whose arguments name the entries that they change.
var changing = map[string]bool{
	"script reserve": true, "script settle": true, "script release": true, "script drop": true, "script rejournal": true, "script repair": true,
}

// watchFinal checks the entries that a script of the gate named. It is called between commands.
func (w *world) watchFinal(script string, args []any) {
	if !changing[script] {
		return
	}
	gate, held := fmt.Sprint(args[3]), fmt.Sprint(args[5]) // keys as in prelude.lua
	mini := w.mini.Load()
	if !mini.Exists(gate) { // the gate is being built
		return
	}
	for _, arg := range argvOf(args) {
		sn, ok := arg.(string)
		if ok && len(sn) >= 15 && strings.Trim(sn, "0123456789") == "" {
			w.watchEntry(script, held, sn, mini.HGet(held, sn))
		}
	}
}

// watchEntry compares an entry with what is remembered of it, and remembers it if it is terminal or paid.
func (w *world) watchEntry(script, held, sn, stored string) {
	w.noteReadable(sn, stored)
	stage, _, _ := strings.Cut(stored, "|")
	now := finalEntry{stage, stored}
	isFinal := slices.Contains([]string{"x", "f", "p"}, stage)
	key := held + " " + sn
	before, known := w.final[key]
	wrong := false
	switch {
	case !known:
	case before.stored == "", before.trimmed():
		wrong = isFinal && stage != before.stage && !w.mayTurn(sn, before.stage, stage)
	case before.stage == "p":
		wrong = stage != "p" && !w.mayTurn(sn, "p", stage)
	default:
		wrong = stored != before.stored && !w.mayTurn(sn, before.stage, stage)
	}
	if wrong {
		w.concern(sn)
		w.fail("order_sn %s was %q (%q) in the gate and became %q (%s)", sn, before.stage, before.stored, stored, script)
	}
	if isFinal {
		w.final[key] = now
	}
}

// checkFinal requires that the gate has every entry that was ever terminal or paid, also those that Redis lost.
func (w *world) checkFinal(f *findings) {
	w.betweenCommands(func() {
		mini := w.mini.Load()
		for key, e := range w.final {
			held, sn, _ := strings.Cut(key, " ")
			stored := mini.HGet(held, sn)
			if stored == "" && (e.trimmed() || w.twinLost(sn)) {
				continue
			}
			if stage, _, _ := strings.Cut(stored, "|"); stage != e.stage && !w.mayTurn(sn, e.stage, stage) {
				f.add(sn, "order_sn %s was %q in the gate and is %q", sn, e.stage, stored)
			}
		}
	})
}

// twinLost reports whether Redis lost the entry of a purchase under the order_sn of another one. The ledger never has it,
// so no rebuilt gate has it.
func (w *world) twinLost(sn string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sale.twin && w.forged[sn] && w.lost[sn].why[inLoss]
}
