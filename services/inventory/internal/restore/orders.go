package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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

// endsOfGates makes purchases that ended in their gate end in the ledger: their buyers have read the end, and the units
// were on sale again. If the restored ledger holds units for one, its order is closed. If the ledger has no row of it, the
// row is written again, so that its message, if delivered once more, does not land as a new purchase. endsOfGates precedes
// the orders that may have these units. Position: activity and cursor of its gate.
func (m *Importer) endsOfGates(ctx context.Context, e core.Epoch, i core.Import) (core.Import, error) {
	activityIDs, err := m.Gate.Registered(ctx)
	if err != nil {
		return i, err
	}
	slices.SortFunc(activityIDs, core.CompareIDs)
	activity, position, _ := strings.Cut(i.Position, "|")
	for _, activityID := range activityIDs {
		if core.CompareIDs(activityID, activity) < 0 {
			continue
		}
		cursor := uint64(0)
		if activityID == activity {
			if position == "end" {
				continue
			}
			cursor, _ = strconv.ParseUint(position, 10, 64)
		}
		ended, next, err := m.endsOfGate(ctx, e, activityID, cursor)
		if err != nil {
			return i, fmt.Errorf("gate of activity %s: %w", activityID, err)
		}
		i.Counts.Ended += ended
		i.Position = activityID + "|" + strconv.FormatUint(next, 10)
		if next == 0 {
			i.Position = activityID + "|end"
		}
		return i, nil
	}
	return atStep(i, core.ImportPaid), m.addForeign(ctx, e, activityIDs)
}

func (m *Importer) endsOfGate(
	ctx context.Context, e core.Epoch, activityID string, cursor uint64,
) (n int64, next uint64, err error) {
	audit, err := m.Gate.Audit(ctx, activityID)
	if errors.Is(err, core.ErrNoGate) || errors.Is(err, core.ErrGateBroken) || err == nil && audit.Epoch == e.Value {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	page, _, next, err := m.Entries.Survey(ctx, activityID, cursor)
	if err != nil {
		return 0, 0, err
	}
	var sns []string
	var ended []ledger.StoredEntry
	for _, it := range page {
		if it.Stage.Ended() && contract.ValidID(it.OrderSN) {
			sns, ended = append(sns, it.OrderSN), append(ended, it)
		}
	}
	if len(ended) == 0 {
		return 0, next, nil
	}
	written, err := m.endAgain(ctx, activityID, ended)
	if err != nil {
		return 0, 0, err
	}
	rows, _, err := m.rowsOf(ctx, sns)
	if err != nil {
		return 0, 0, err
	}
	held := sns[:0]
	for _, sn := range sns {
		if r, ok := rows[sn]; ok && r.Holds() && r.ActivityID == activityID {
			held = append(held, sn)
		}
	}
	if len(held) == 0 {
		return written, next, nil
	}
	closing := contract.OrderClose{OrderSNs: held, ActivityID: activityID}
	_, err = m.Inventory.CloseOrders(ctx, closing, ledger.ReasonRejected, ledger.ReasonSystem)
	return written + int64(len(held)), next, err
}

// endAgain writes the rows of ended purchases that the ledger does not have, and returns their number. The order service
// closes their orders before, or makes sure that it never creates them. An order that it cannot close is imported later.
func (m *Importer) endAgain(ctx context.Context, activityID string, ended []ledger.StoredEntry) (int64, error) {
	missing := map[string]ledger.StoredEntry{}
	var sns []string
	for _, it := range ended {
		if readable(it) {
			missing[it.OrderSN] = it
			sns = append(sns, it.OrderSN)
		}
	}
	rows, broken, err := m.rowsOf(ctx, sns)
	if err != nil {
		return 0, err
	}
	open, err := m.Tables.OpenDeadLetters(ctx, sns)
	if err != nil {
		return 0, err
	}
	sns = slices.DeleteFunc(sns, func(sn string) bool {
		_, known := rows[sn]
		return known || broken[sn] || open[sn] // an operator decides about a dead letter
	})
	if len(sns) == 0 {
		return 0, nil
	}
	outcomes, err := m.Inventory.RequestClose(ctx, sns, ledger.ReasonRejected)
	if err != nil {
		return 0, err
	}
	sns = sns[:0]
	for _, o := range outcomes {
		switch o.Outcome {
		case core.OutcomeUnknown, core.OutcomeClosed, core.OutcomeRefunded:
			sns = append(sns, o.OrderSN)
		}
	}
	var written int64
	err = m.Tables.Ledger(ctx, []string{activityID}, func(tx core.LedgerTx) error {
		written = 0
		now, err := tx.Now()
		if err != nil || tx.Activity(activityID) == nil { // its purchases end in the step foreign
			return err
		}
		rows, err := tx.Reservations(sns)
		if err != nil {
			return err
		}
		moves := ledger.NewMoves()
		for _, sn := range sns {
			if _, known := rows[sn]; known {
				continue
			}
			it := missing[sn]
			row := ledger.New(contract.Reservation{
				OrderSN: sn, ActivityID: activityID, UserID: it.UserID, Lines: it.Lines, ReservedAt: now,
			}, now).Rejected(it.Reason)
			if it.Stage == ledger.StageClosed { // only an order can be closed
				row.State, row.OrderCreatedAt = ledger.StateReleased, &now
			}
			moves.Place(row)
		}
		written = int64(len(moves.Insert))
		return tx.Apply(moves)
	})
	return written, err
}
