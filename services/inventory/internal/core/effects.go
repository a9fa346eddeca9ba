package core

import "flashsale.internal/services/inventory/internal/ledger"

// gateChunk bounds one script call.
const gateChunk = 128

// effects are the calls that write the present states of reservations into one gate. Each may be repeated, in any
// order with the effects of other states of the row: the gate's states only rise, and a paid entry ends only by a
// release with ReasonRefunded.
type effects struct {
	settle  []ledger.Entry
	release []ledger.Entry
	drop    []ledger.Entry
	refused []ledger.Row
}

func (e *effects) add(r ledger.Row) {
	if len(r.Lines) == 0 { // rejected without valid lines: no gate has it
		return
	}
	if r.Refused() {
		e.refused = append(e.refused, r)
	}
	switch to := r.Entry(); to.Stage {
	case ledger.StageClosed:
		e.release = append(e.release, to)
	case ledger.StageFailed:
		e.drop = append(e.drop, to)
	default:
		e.settle = append(e.settle, to)
	}
}
