package core

// gateChunk bounds one script call.
const gateChunk = 128

// effects are the calls that write the present states of reservations into one gate. Each may be repeated, in any
// order with the effects of other states of the row: the gate's states only rise, and a paid entry ends only by a
// release with ReasonRefunded.
type effects struct {
	settle  []Settlement
	release []Ending
	drop    []Ending
	refused []Reservation // rejected for stock or allowance: the gate sold units that the ledger does not have
}

func (e *effects) add(r Reservation) {
	if len(r.Lines) == 0 { // rejected without valid lines: no gate has it
		return
	}
	switch r.State {
	case StateReserved, StateSold:
		e.settle = append(e.settle, settlement(r))
	case StateReleased:
		end := Ending{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Reason: r.Reason}
		if r.OrderCreatedAt == nil { // never had an order: failed, not closed
			e.drop = append(e.drop, end)
		} else {
			e.release = append(e.release, end)
		}
	case StateRejected:
		e.drop = append(e.drop, Ending{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Reason: r.Reason})
		if r.Reason == ReasonSoldOut || r.Reason == ReasonLimitReached {
			e.refused = append(e.refused, r)
		}
	}
}

func settlement(r Reservation) Settlement {
	st := Settlement{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines, Step: StepLanded}
	switch {
	case r.State == StateSold:
		st.Step = StepPaid
	case r.OrderCreatedAt != nil:
		st.Step = StepCreated
	}
	if r.ExpiresAt != nil {
		st.ExpiresAt = *r.ExpiresAt
	}
	return st
}
