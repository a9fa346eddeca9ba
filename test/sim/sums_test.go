package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// moving holds the scripts that move units between the counters of a gate.
var moving = map[string]bool{
	"script reserve": true, "script settle": true, "script release": true, "script rejournal": true, "script adjust": true,
	"script adjust undo": true, "script repair": true, "script rebuild_buyer": true, "script correct": true,
}

// watchSums requires, after every script that moves units, that left + held + sold is the total of each SKU. It is off
// in sales whose counters are damaged on purpose, and on in one of four others, since it takes a quarter of a sale's
// time.
func (w *world) watchSums(script string, args []any) {
	if !moving[script] || w.seed%4 != 1 || len(w.sale.damages) > 0 {
		return
	}
	fields, err := w.rdb.HGetAll(context.Background(), fmt.Sprint(args[3])).Result()
	if err != nil {
		return // the master is down
	}
	missing := map[string]int64{}
	for field, value := range fields {
		kind, sku, ok := strings.Cut(field, ":")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case !ok:
		case err != nil:
			w.fail("%s of the gate is %q (%s)", field, value, script)
		case kind == "t":
			missing[sku] += n
		case kind == "s", kind == "h", kind == "p":
			missing[sku] -= n
		}
	}
	for sku, n := range missing {
		if n != 0 {
			w.fail("SKU %s: %d units of the total are neither left nor held nor sold in the gate after %s: %v", sku,
				n, script, fields)
		}
	}
}
