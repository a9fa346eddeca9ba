package restore

import (
	"context"
	"errors"
	"strconv"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

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
