package sim

import "time"

// repair is one repair that the reconciler recorded.
type repair struct {
	Kind    string
	OrderSN string `json:"order_sn"` // of a repaired entry
}

// causes holds, by kind of repair, the losses and damage that explain it. Repairs of entries must also concern one of
// the entries that were lost or damaged in that way. Kinds that are not listed are never explained: they mean that a
// component wrote something wrong.
var causes = map[string][]string{
	"adopted":    {inLoss, inFailover, removed, spoiled},
	"forgotten":  {inLoss, inFailover, removed, spoiled},
	"rewritten":  {spoiled},
	"removed":    {spoiled},
	"buyers":     {buyerRemoved, removed, spoiled},
	"counters":   {stockChanged, removed, spoiled},
	"adjustment": {"gate deleted", "emptied", inFailover},
}

// lateRepairs holds the kinds of repairs that any failed or late call may cause: the reconciler makes the update first.
var lateRepairs = map[string]bool{"settled": true, "released": true, "rebuilt": true}

// checkRepairs requires that each repair of the reconciler has a cause in this sale. The gate of a new activity needs
// none: the reconciler may build it before the call that publishes the activity does.
func (w *world) checkRepairs(f *findings, b books) {
	newGates := w.opened
	for _, r := range b.repairs {
		if r.Kind == "rebuilt" && newGates > 0 {
			newGates--
			continue
		}
		if !w.explains(r) {
			f.add(r.OrderSN, "the reconciler made a repair without a cause: %s %s", r.Kind, r.OrderSN)
		}
	}
}

func (w *world) explains(r repair) bool {
	calm := w.plan.faultless() && !w.sale.redisless.happens() && w.sale.abandonAfter > time.Hour && !w.sale.garbles && w.sale.forges == 0
	w.mu.Lock()
	defer w.mu.Unlock()
	l, lost := w.lost[r.OrderSN]
	if lateRepairs[r.Kind] {
		return !calm || lost || w.happened["gate deleted"] || w.happened["emptied"] || w.happened[inFailover] || w.happened[commitsLost]
	}
	if r.Kind == "overruled" && w.setBack[r.OrderSN] { // paid or refunded after all
		return true
	}
	for _, cause := range causes[r.Kind] {
		if r.OrderSN == "" && w.happened[cause] || r.OrderSN != "" && l.why[cause] {
			return true
		}
	}
	return false
}
