package restore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ordersStep returns the step that imports the orders of these states, page by page, and is followed by next. Position:
// the cursor of the order service.
//
// An order that changes meanwhile moves towards the end of the list, so a later step has all states of the earlier ones.
func (m *Importer) ordersStep(next core.ImportStep, states ...string) stepFunc {
	wanted := map[string]bool{}
	for _, s := range states {
		wanted[s] = true
	}
	return func(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
		page, cursor, err := m.Orders.Changed(ctx, e.Since, i.Position)
		if err != nil {
			return i, err
		}
		var list []core.ChangedOrder
		for _, o := range page {
			if wanted[o.State] {
				list = append(list, o)
			}
		}
		if err := m.importOrders(ctx, e, list, &i.Counts); err != nil {
			return i, err
		}
		if i.Position = cursor; cursor == "" {
			return atStep(i, next), nil
		}
		return i, nil
	}
}

// importOrders imports one page of orders.
func (m *Importer) importOrders(ctx context.Context, e core.Epoch, list []core.ChangedOrder, counts *core.ImportCounts) error {
	ids := make([]string, len(list))
	for n, o := range list {
		ids[n] = o.ActivityID
	}
	drafts, err := m.Epochs.ActivityDrafts(ctx, ids)
	if err != nil {
		return err
	}
	var known, foreign []core.ChangedOrder
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
func (m *Importer) importKnown(ctx context.Context, e core.Epoch, list []core.ChangedOrder, counts *core.ImportCounts) error {
	if len(list) == 0 {
		return nil
	}
	var x orderImport
	err := m.Tables.Ledger(ctx, activitiesOfOrders(list), func(tx core.LedgerTx) error {
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
	if errors.Is(err, core.ErrBrokenRow) {
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
		m.Incidents.RaiseUnreadable(ctx, []ledger.Row{{OrderSN: o.OrderSN, ActivityID: o.ActivityID}})
		return m.find(ctx, []core.Finding{{
			Epoch: e.Number, ActivityID: o.ActivityID, Kind: core.FindingUnreadable, Subject: o.OrderSN,
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
		m.Recorder.Incident(ctx, "order_sn of an order belongs to another purchase in the ledger", "order_sn", sn)
	}
	if len(x.close) > 0 {
		if _, err := m.Inventory.RequestClose(ctx, x.close, ledger.ReasonRejected); err != nil {
			return err
		}
	}
	if err := m.Inventory.RefundUnreserved(ctx, x.refund); err != nil {
		return err
	}
	if err := m.Gates.Sync(ctx, x.rows); err != nil {
		return err
	}
	x.counts.Closed, x.counts.Refunded = int64(len(x.close)), int64(len(x.refund))
	x.counts.SetAside = int64(len(x.conflicts))
	*counts = core.SumOfImports([]core.Import{{Counts: *counts}, {Counts: x.counts}})
	return nil
}

func activitiesOfOrders(list []core.ChangedOrder) []string {
	ids := map[string]bool{}
	for _, o := range list {
		ids[o.ActivityID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// orderImport is the outcome of one run of the ledger transaction.
type orderImport struct {
	now           time.Time
	epoch         int64
	moves         *ledger.Moves
	rows          []ledger.Row // changed or new, for their gates
	close, refund []string     // orders without a unit
	conflicts     []string
	findings      []core.Finding
	counts        core.ImportCounts
}

func (x *orderImport) decide(tx core.LedgerTx, list []core.ChangedOrder) error {
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
	held, err := core.HeldBy(tx, users)
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
			x.find(o, core.FindingConflict, "the ledger has another purchase under this order_sn; the order is "+o.State)
		case known:
			x.follow(row, o)
		default:
			x.insert(tx.Activity(o.ActivityID), o, held)
		}
	}
	return nil
}

func (x *orderImport) find(o core.ChangedOrder, kind, detail string) {
	x.findings = append(x.findings,
		core.Finding{Epoch: x.epoch, ActivityID: o.ActivityID, Kind: kind, Subject: o.OrderSN, Detail: detail})
}

// stateSteps are the steps that bring a row to the state of its order.
var stateSteps = map[string]contract.OrderEventType{
	core.OrderPending: contract.OrderCreated, core.OrderPaid: contract.OrderPaid, core.OrderClosed: contract.OrderClosed,
	core.OrderRefunded: contract.OrderRefunded,
}

// follow makes the row of an order follow it. A row that is further stays: it is the order service that was restored.
func (x *orderImport) follow(row ledger.Row, o core.ChangedOrder) {
	if !row.Holds() && (o.State == core.OrderPending || o.State == core.OrderPaid) {
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
	if changed && o.State == core.OrderPending {
		x.counts.Pending++
	}
	x.rows = append(x.rows, after)
}

// noUnit adds an order to those that are closed or refunded.
func (x *orderImport) noUnit(o core.ChangedOrder) {
	what := "closed"
	if o.State == core.OrderPaid {
		what = "refunded"
		x.refund = append(x.refund, o.OrderSN)
	} else {
		x.close = append(x.close, o.OrderSN)
	}
	x.find(o, core.FindingNoUnit, "no unit is left for the order: it is "+what)
}

// insert writes the row of an order that the ledger does not have. If no unit is left for it, the row holds none.
func (x *orderImport) insert(a *core.Activity, o core.ChangedOrder, held core.HeldUnits) {
	p := contract.Reservation{
		OrderSN: o.OrderSN, ActivityID: o.ActivityID, UserID: o.UserID, Lines: o.Lines, ReservedAt: o.CreatedAt,
		Traceparent: o.Traceparent,
	}
	row := ledger.New(p, x.now)
	created := row.ReservedAt
	row.OrderCreatedAt = &created
	if at := ledger.SanitizeTime(o.ExpiresAt, time.Time{}); !at.IsZero() {
		row.ExpiresAt = &at
	}
	switch {
	case o.State == core.OrderClosed || o.State == core.OrderRefunded:
		row.State, row.Reason = ledger.StateReleased, ledger.SanitizeReason(o.Reason)
		if o.State == core.OrderRefunded {
			row.Reason = ledger.ReasonRefunded
		}
		x.counts.Released++
	case a == nil || core.UnknownSKU(a, o.Lines) != "" || held.Refusal(a, p) != "":
		row.State, row.Reason = ledger.StateReleased, ledger.ReasonRejected
		if o.State == core.OrderPaid {
			row.Reason = ledger.ReasonRefunded
		}
		x.noUnit(o)
	default:
		held.Take(a, p)
		if o.State == core.OrderPaid {
			row.State = ledger.StateSold
			x.counts.Paid++
		} else {
			x.counts.Pending++
		}
	}
	x.moves.Place(row)
	x.rows = append(x.rows, row)
}
