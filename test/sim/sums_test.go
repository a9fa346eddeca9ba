package sim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

// moving holds the scripts that move units between the counters of a gate.
var moving = map[string]bool{
	"script reserve": true, "script settle": true, "script release": true, "script drop": true, "script rejournal": true,
	"script adjust": true, "script adjust undo": true, "script repair": true, "script rebuild_buyer": true,
	"script correct": true, "script ack": true, "script preload": true,
}

// imbalances returns, by SKU, the units of the total of a gate that are neither left nor held nor sold.
func imbalances(m *miniredis.Miniredis, gate string) map[string]int64 {
	fields, err := m.HKeys(gate)
	if err != nil {
		return nil // no gate
	}
	missing := map[string]int64{}
	for _, field := range fields {
		kind, sku, ok := strings.Cut(field, ":")
		if !ok || kind != "t" && kind != "s" && kind != "h" && kind != "p" {
			continue
		}
		n, err := strconv.ParseInt(m.HGet(gate, field), 10, 64)
		if err != nil {
			continue // the comparison with the tables finds it
		}
		if kind == "t" {
			missing[sku] += n
		} else {
			missing[sku] -= n
		}
	}
	return missing
}

// watchSums requires, after every script that moves units, that left + held + sold is the total of each SKU, except for
// the units by which damage changed the counters, until a correction. It is called between commands.
func (w *world) watchSums(script string, args []any) {
	if !moving[script] {
		return
	}
	for sku, n := range imbalances(w.mini.Load(), fmt.Sprint(args[3])) {
		want := w.unbalanced[sku]
		if n != want && (n != 0 || script != "script correct") {
			w.fail("SKU %s: %d units of the total are neither left nor held nor sold in the gate after %s, want %d", sku,
				n, script, want)
		}
		w.unbalanced[sku] = n
	}
}
