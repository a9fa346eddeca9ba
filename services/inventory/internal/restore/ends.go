package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

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
