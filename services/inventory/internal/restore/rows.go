package restore

import (
	"context"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ordersOfRows returns the step that publishes the deductions again of rows that hold units and whose order does not
// exist. It repeats until the order service has all of them, then goes on to next. It never closes one of them, except
// an order_sn that can never get an order. Position: the last order_sn, after an r if rows were published.
//
// Before purchases land again, such a row proves that the order service was restored. Afterwards it is one that has
// landed again: an event that its lost order published before the restore may have come meanwhile, so that the ledger
// takes the order for known and does not publish the deduction again by itself.
func (m *Importer) ordersOfRows(next core.ImportStep) stepFunc {
	return func(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
		if w := m.waits[i.ActivityID]; i.Position == "r" && m.now().Before(w.next) {
			return i, errImportWaits
		}
		a, now, err := m.Tables.DatedActivity(ctx, i.ActivityID)
		if err != nil {
			return i, err
		}
		if a == nil || a.State == core.ActivityDraft {
			return atStep(i, core.ImportForeign), nil
		}
		var since time.Time
		if !a.GateDue(now) { // it is over: only what changed since can be unknown to the order service
			since = e.Since
		}
		after, dirty := strings.CutPrefix(i.Position, "r")
		if after == "" {
			dirty = false
		}
		rows, broken, more, err := m.Tables.ChangedReservations(
			ctx, i.ActivityID, []ledger.State{ledger.StateReserved, ledger.StateSold}, since, after, contract.MaxItems)
		if err != nil {
			return i, err
		}
		m.Incidents.RaiseUnreadable(ctx, broken)
		n, err := m.republishUnknown(ctx, a, rows, now)
		if err != nil {
			return i, err
		}
		i.Counts.Republished += int64(n)
		dirty = dirty || n > 0
		switch {
		case more == "" && dirty:
			i.Position = "r"
			m.waits[i.ActivityID] = wait{next: m.now().Add(3 * importPause)}
		case more == "":
			return atStep(i, next), nil
		case dirty:
			i.Position = "r" + more
		default:
			i.Position = more
		}
		return i, nil
	}
}

// republishUnknown publishes the deductions of rows whose order does not exist. It returns their number.
func (m *Importer) republishUnknown(
	ctx context.Context, a *core.Activity, rows []ledger.Row, asOf time.Time,
) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	sns := make([]string, len(rows))
	for n, r := range rows {
		sns[n] = r.OrderSN
	}
	states, err := m.Orders.States(ctx, sns)
	if err != nil {
		return 0, err
	}
	open, err := m.Tables.OpenDeadLetters(ctx, sns)
	if err != nil {
		return 0, err
	}
	var due []ledger.Row
	var never []string
	for _, r := range rows {
		switch states[r.OrderSN] {
		case core.OutcomeUnknown:
			if !open[r.OrderSN] && core.UnknownSKU(a, r.Lines) == "" {
				due = append(due, r)
			}
		case core.OrderTombstone:
			never = append(never, r.OrderSN)
		}
	}
	if len(never) > 0 {
		closing := contract.OrderClose{OrderSNs: never, ActivityID: a.ID}
		if _, err := m.Inventory.CloseOrders(ctx, closing, ledger.ReasonRejected, ledger.ReasonSystem); err != nil {
			return 0, err
		}
	}
	if len(due) == 0 {
		return 0, nil
	}
	return len(due), m.Inventory.PublishAgain(ctx, a, asOf, due)
}
