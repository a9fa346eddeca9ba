package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// moving are the scripts that move pieces between the counters of a gate.
var moving = map[string]bool{
	"script reserve": true, "script settle": true, "script release": true, "script rejournal": true, "script adjust": true,
	"script adjust undo": true, "script repair": true, "script mend": true, "script correct": true,
}

// watchSums demands after every script that moves pieces that left, held and sold are the total of each SKU. Where somebody
// spoils counters they are not, until the reconciler has been there. It takes a quarter of the sale's time, so only some
// sales are watched so closely.
func (w *world) watchSums(script string, args []any) {
	if !moving[script] || w.seed%4 != 1 || len(w.sale.damages) > 0 {
		return
	}
	fields, err := w.rdb.HGetAll(context.Background(), fmt.Sprint(args[3])).Result()
	if err != nil {
		return // the master is gone
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
			w.fail("SKU %s: %d pieces of the total are neither left nor held nor sold in the gate after %s: %v", sku, n, script, fields)
		}
	}
}
