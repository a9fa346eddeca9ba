package restore

import (
	"context"
	"errors"
	"strconv"
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

// endForeign ends every purchase in a gate whose activity the database does not have, or has as a draft, and closes or
// refunds its order. Position: the cursor of the gate.
func (m *Importer) endForeign(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
	if i.Position == "" {
		err := m.Gate.EndSale(ctx, i.ActivityID)
		if errors.Is(err, core.ErrNoGate) {
			return atStep(i, core.ImportDone), nil
		}
		if err != nil {
			return i, err
		}
	}
	cursor, _ := strconv.ParseUint(i.Position, 10, 64)
	page, _, next, err := m.Entries.Survey(ctx, i.ActivityID, cursor)
	if errors.Is(err, core.ErrNoGate) {
		return atStep(i, core.ImportDone), nil
	}
	if err != nil {
		return i, err
	}
	n, err := m.endForeignEntries(ctx, e, i.ActivityID, page)
	if err != nil {
		return i, err
	}
	i.Counts.Foreign += int64(n)
	if next == 0 {
		return atStep(i, core.ImportDone), nil
	}
	i.Position = strconv.FormatUint(next, 10)
	return i, nil
}

func (m *Importer) endForeignEntries(
	ctx context.Context, e core.Epoch, activityID string, page []ledger.StoredEntry,
) (int, error) {
	entries := map[string]ledger.StoredEntry{}
	var sns []string
	for _, it := range page {
		if it.Stage.Holds() && readable(it) && contract.ValidID(it.OrderSN) {
			entries[it.OrderSN] = it
			sns = append(sns, it.OrderSN)
		}
	}
	if len(sns) == 0 {
		return 0, nil
	}
	outcomes, err := m.Inventory.RequestClose(ctx, sns, ledger.ReasonRejected)
	if err != nil {
		return 0, err
	}
	var release, drop []ledger.Entry
	var refunds []string
	var findings []core.Finding
	for _, o := range outcomes {
		it := entries[o.OrderSN]
		end := ledger.Entry{OrderSN: o.OrderSN, UserID: it.UserID, Lines: it.Lines, Reason: ledger.ReasonSystem}
		switch {
		case o.Outcome == core.OutcomePaid:
			refunds = append(refunds, o.OrderSN)
			end.Reason = ledger.ReasonRefunded
		case o.Outcome == core.OutcomeRefunded, it.Stage == ledger.StagePaid:
			end.Reason = ledger.ReasonRefunded
		case o.Outcome == core.OutcomeClosed:
			end.Reason = ledger.ReasonRejected
		}
		if end.Reason == ledger.ReasonSystem {
			drop = append(drop, end)
		} else {
			release = append(release, end)
		}
		findings = append(findings, core.Finding{
			Epoch: e.Number, ActivityID: activityID, Kind: core.FindingForeign, Subject: o.OrderSN,
			Detail: "the database does not have the activity of this purchase: its order was " + o.Outcome,
		})
	}
	if err := m.find(ctx, findings); err != nil {
		return 0, err
	}
	if err := m.Inventory.RefundUnreserved(ctx, refunds); err != nil {
		return 0, err
	}
	return len(sns), errors.Join(
		m.Entries.Release(ctx, activityID, release), m.Entries.Drop(ctx, activityID, drop))
}

// endForeignOrders closes and refunds orders of activities that the database does not have.
func (m *Importer) endForeignOrders(
	ctx context.Context, e core.Epoch, list []core.ChangedOrder, counts *core.ImportCounts,
) error {
	var closing, refunds []string
	var findings []core.Finding
	for _, o := range list {
		what := "closed"
		switch o.State {
		case core.OrderPending:
			closing = append(closing, o.OrderSN)
		case core.OrderPaid:
			refunds = append(refunds, o.OrderSN)
			what = "refunded"
		default:
			continue
		}
		findings = append(findings, core.Finding{
			Epoch: e.Number, ActivityID: o.ActivityID, Kind: core.FindingForeign, Subject: o.OrderSN,
			Detail: "the database does not have the activity of this order: it is " + what,
		})
	}
	if err := m.find(ctx, findings); err != nil {
		return err
	}
	if len(closing) > 0 {
		if _, err := m.Inventory.RequestClose(ctx, closing, ledger.ReasonRejected); err != nil {
			return err
		}
	}
	counts.Foreign += int64(len(findings))
	return m.Inventory.RefundUnreserved(ctx, refunds)
}
