package core

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ordersStep returns the step that imports the orders of these states, page by page, and is followed by next. Position:
// the cursor of the order service.
//
// An order that changes meanwhile moves towards the end of the list, so a later step has all states of the earlier ones.
func (m *Importer) ordersStep(next ImportStep, states ...string) stepFunc {
	wanted := map[string]bool{}
	for _, s := range states {
		wanted[s] = true
	}
	return func(ctx context.Context, e Epoch, i Import) (Import, error) {
		page, cursor, err := m.svc.orders.Changed(ctx, e.Since, i.Position)
		if err != nil {
			return i, err
		}
		var list []ChangedOrder
		for _, o := range page {
			if wanted[o.State] {
				list = append(list, o)
			}
		}
		if err := m.importOrders(ctx, e, list, &i.Counts); err != nil {
			return i, err
		}
		if i.Position = cursor; cursor == "" {
			return i.to(next), nil
		}
		return i, nil
	}
}

// importOrders imports one page of orders.
func (m *Importer) importOrders(ctx context.Context, e Epoch, list []ChangedOrder, counts *ImportCounts) error {
	ids := make([]string, len(list))
	for n, o := range list {
		ids[n] = o.ActivityID
	}
	drafts, err := m.svc.store.ActivityDrafts(ctx, ids)
	if err != nil {
		return err
	}
	var known, foreign []ChangedOrder
	for _, o := range list {
		if draft, ok := drafts[o.ActivityID]; ok && !draft {
			known = append(known, o)
		} else {
			foreign = append(foreign, o)
		}
	}
	if err := m.importKnown(ctx, e, known, counts); err != nil {
		return err
	}
	return m.endForeignOrders(ctx, e, foreign, counts)
}

// importKnown imports orders of activities that the database has. A row that cannot be read is set aside.
func (m *Importer) importKnown(ctx context.Context, e Epoch, list []ChangedOrder, counts *ImportCounts) error {
	if len(list) == 0 {
		return nil
	}
	var x orderImport
	err := m.svc.store.Ledger(ctx, activitiesOfOrders(list), func(tx LedgerTx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		x = orderImport{now: now, epoch: e.Number, moves: ledger.NewMoves()}
		if err := x.decide(tx, list); err != nil {
			return err
		}
		return tx.Apply(x.moves)
	})
	if errors.Is(err, ErrBrokenRow) {
		if len(list) > 1 { // one by one: only the order of that row is set aside
			for n := range list {
				if err := m.importKnown(ctx, e, list[n:n+1], counts); err != nil {
					return err
				}
			}
			return nil
		}
		counts.SetAside++
		o := list[0]
		m.svc.Alarms.RaiseUnreadable(ctx, []ledger.Row{{OrderSN: o.OrderSN, ActivityID: o.ActivityID}})
		return m.find(ctx, []Finding{{
			Epoch: e.Number, ActivityID: o.ActivityID, Kind: FindingUnreadable, Subject: o.OrderSN,
			Detail: "the row of the ledger cannot be read; the order is " + o.State,
		}})
	}
	if err != nil {
		return err
	}
	if err := m.find(ctx, x.findings); err != nil {
		return err
	}
	for _, sn := range x.conflicts {
		m.svc.recorder.Incident(ctx, "order_sn of an order belongs to another purchase in the ledger", "order_sn", sn)
	}
	if len(x.close) > 0 {
		if _, err := m.svc.requestClose(ctx, x.close, ledger.ReasonRejected); err != nil {
			return err
		}
	}
	if err := m.svc.refund(ctx, x.refund); err != nil {
		return err
	}
	if err := m.svc.Gates.Sync(ctx, x.rows); err != nil {
		return err
	}
	x.counts.Closed, x.counts.Refunded = int64(len(x.close)), int64(len(x.refund))
	x.counts.SetAside = int64(len(x.conflicts))
	*counts = SumOfImports([]Import{{Counts: *counts}, {Counts: x.counts}})
	return nil
}

func activitiesOfOrders(list []ChangedOrder) []string {
	ids := map[string]bool{}
	for _, o := range list {
		ids[o.ActivityID] = true
	}
	return sortedKeys(ids)
}

// orderImport is the outcome of one run of the ledger transaction.
type orderImport struct {
	now           time.Time
	epoch         int64
	moves         *ledger.Moves
	rows          []ledger.Row // changed or new, for their gates
	close, refund []string     // orders without a unit
	conflicts     []string
	findings      []Finding
	counts        ImportCounts
}

func (x *orderImport) decide(tx LedgerTx, list []ChangedOrder) error {
	sns := make([]string, len(list))
	users := map[string][]string{}
	for n, o := range list {
		sns[n] = o.OrderSN
		users[o.ActivityID] = append(users[o.ActivityID], o.UserID)
	}
	rows, err := tx.Reservations(sns)
	if err != nil {
		return err
	}
	held, err := heldBy(tx, users)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, o := range list {
		if seen[o.OrderSN] {
			continue
		}
		seen[o.OrderSN] = true
		row, known := rows[o.OrderSN]
		switch {
		case known && !row.Same(o.UserID, o.ActivityID, o.Lines):
			x.conflicts = append(x.conflicts, o.OrderSN)
			x.find(o, FindingConflict, "the ledger has another purchase under this order_sn; the order is "+o.State)
		case known:
			x.follow(row, o)
		default:
			x.insert(tx.Activity(o.ActivityID), o, held)
		}
	}
	return nil
}

func (x *orderImport) find(o ChangedOrder, kind, detail string) {
	x.findings = append(x.findings,
		Finding{Epoch: x.epoch, ActivityID: o.ActivityID, Kind: kind, Subject: o.OrderSN, Detail: detail})
}

// stateSteps are the steps that bring a row to the state of its order.
var stateSteps = map[string]contract.OrderEventType{
	OrderPending: contract.OrderCreated, OrderPaid: contract.OrderPaid, OrderClosed: contract.OrderClosed,
	OrderRefunded: contract.OrderRefunded,
}

// follow makes the row of an order follow it. A row that is further stays: it is the order service that was restored.
func (x *orderImport) follow(row ledger.Row, o ChangedOrder) {
	if !row.Holds() && (o.State == OrderPending || o.State == OrderPaid) {
		x.noUnit(o) // also if an order service that was restored has lost its refund
		return
	}
	after := x.moves.Apply(row, ledger.Step{
		Order: stateSteps[o.State], At: o.CreatedAt, ExpiresAt: &o.ExpiresAt, Reason: o.Reason, Present: true,
	}, x.now)
	switch {
	case row.State == ledger.StateReserved && after.State == ledger.StateSold:
		x.counts.Paid++
	case row.Holds() && !after.Holds():
		x.counts.Released++
	}
	after, changed := x.moves.Rewrite(row, after, x.now)
	if changed && o.State == OrderPending {
		x.counts.Pending++
	}
	x.rows = append(x.rows, after)
}

// noUnit adds an order to those that are closed or refunded.
func (x *orderImport) noUnit(o ChangedOrder) {
	what := "closed"
	if o.State == OrderPaid {
		what = "refunded"
		x.refund = append(x.refund, o.OrderSN)
	} else {
		x.close = append(x.close, o.OrderSN)
	}
	x.find(o, FindingNoUnit, "no unit is left for the order: it is "+what)
}

// insert writes the row of an order that the ledger does not have. If no unit is left for it, the row holds none.
func (x *orderImport) insert(a *Activity, o ChangedOrder, held heldUnits) {
	p := contract.Reservation{
		OrderSN: o.OrderSN, ActivityID: o.ActivityID, UserID: o.UserID, Lines: o.Lines, ReservedAt: o.CreatedAt,
		Traceparent: o.Traceparent,
	}
	row := ledger.New(p, x.now)
	row.OrderCreatedAt = &row.ReservedAt
	if at := ledger.SanitizeTime(o.ExpiresAt, time.Time{}); !at.IsZero() {
		row.ExpiresAt = &at
	}
	switch {
	case o.State == OrderClosed || o.State == OrderRefunded:
		row.State, row.Reason = ledger.StateReleased, ledger.SanitizeReason(o.Reason)
		if o.State == OrderRefunded {
			row.Reason = ledger.ReasonRefunded
		}
		x.counts.Released++
	case a == nil || unknownSKU(a, o.Lines) != "" || held.Refusal(a, p) != "":
		row.State, row.Reason = ledger.StateReleased, ledger.ReasonRejected
		if o.State == OrderPaid {
			row.Reason = ledger.ReasonRefunded
		}
		x.noUnit(o)
	default:
		held.Take(a, p)
		if o.State == OrderPaid {
			row.State = ledger.StateSold
			x.counts.Paid++
		} else {
			x.counts.Pending++
		}
	}
	x.moves.Place(row)
	x.rows = append(x.rows, row)
}

// endForeignOrders closes and refunds orders of activities that the database does not have.
func (m *Importer) endForeignOrders(
	ctx context.Context, e Epoch, list []ChangedOrder, counts *ImportCounts,
) error {
	var closing, refunds []string
	var findings []Finding
	for _, o := range list {
		what := "closed"
		switch o.State {
		case OrderPending:
			closing = append(closing, o.OrderSN)
		case OrderPaid:
			refunds = append(refunds, o.OrderSN)
			what = "refunded"
		default:
			continue
		}
		findings = append(findings, Finding{
			Epoch: e.Number, ActivityID: o.ActivityID, Kind: FindingForeign, Subject: o.OrderSN,
			Detail: "the database does not have the activity of this order: it is " + what,
		})
	}
	if err := m.find(ctx, findings); err != nil {
		return err
	}
	if len(closing) > 0 {
		if _, err := m.svc.requestClose(ctx, closing, ledger.ReasonRejected); err != nil {
			return err
		}
	}
	counts.Foreign += int64(len(findings))
	return m.svc.refund(ctx, refunds)
}
