package core

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/ledger"
)

// ordersOfRows returns the step that publishes the deductions again of rows that hold units and whose order does not
// exist. It repeats until the order service has all of them, then goes on to next. It never closes one of them, except
// an order_sn that can never get an order. Position: the last order_sn, after an r if rows were published.
//
// Before purchases land again, such a row proves that the order service was restored. Afterwards it is one that has
// landed again: an event that its lost order published before the restore may have come meanwhile, so that the ledger
// takes the order for known and does not publish the deduction again by itself.
func (m *Importer) ordersOfRows(next ImportStep) stepFunc {
	return func(ctx context.Context, e Epoch, i Import) (Import, error) {
		if w := m.waits[i.ActivityID]; i.Position == "r" && m.svc.clock().Before(w.next) {
			return i, errImportWaits
		}
		a, now, err := m.svc.store.DatedActivity(ctx, i.ActivityID)
		if err != nil {
			return i, err
		}
		if a == nil || a.State == ActivityDraft {
			return i.to(ImportForeign), nil
		}
		var since time.Time
		if !a.GateDue(now) { // it is over: only what changed since can be unknown to the order service
			since = e.Since
		}
		after, dirty := strings.CutPrefix(i.Position, "r")
		if after == "" {
			dirty = false
		}
		rows, broken, more, err := m.svc.store.ChangedReservations(
			ctx, i.ActivityID, []ledger.State{ledger.StateReserved, ledger.StateSold}, since, after, contract.MaxItems)
		if err != nil {
			return i, err
		}
		m.svc.Alarms.RaiseUnreadable(ctx, broken)
		n, err := m.republishUnknown(ctx, a, rows, now)
		if err != nil {
			return i, err
		}
		i.Counts.Republished += int64(n)
		dirty = dirty || n > 0
		switch {
		case more == "" && dirty:
			i.Position = "r"
			m.waits[i.ActivityID] = wait{next: m.svc.clock().Add(3 * importPause)}
		case more == "":
			return i.to(next), nil
		case dirty:
			i.Position = "r" + more
		default:
			i.Position = more
		}
		return i, nil
	}
}

// republishUnknown publishes the deductions of rows whose order does not exist. It returns their number.
func (m *Importer) republishUnknown(ctx context.Context, a *Activity, rows []ledger.Row, asOf time.Time) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	sns := make([]string, len(rows))
	for n, r := range rows {
		sns[n] = r.OrderSN
	}
	states, err := m.svc.orders.States(ctx, sns)
	if err != nil {
		return 0, err
	}
	open, err := m.svc.store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return 0, err
	}
	var due []contract.Deduction
	var never []string
	for _, r := range rows {
		switch states[r.OrderSN] {
		case OutcomeUnknown:
			if !open[r.OrderSN] && unknownSKU(a, r.Lines) == "" {
				due = append(due, deduction(a, r))
			}
		case OrderTombstone:
			never = append(never, r.OrderSN)
		}
	}
	if len(never) > 0 {
		if _, err := m.svc.closeOrders(ctx, contract.OrderClose{OrderSNs: never, ActivityID: a.ID}, ledger.ReasonRejected, ledger.ReasonSystem); err != nil {
			return 0, err
		}
	}
	if len(due) == 0 {
		return 0, nil
	}
	about := []contract.ActivityInfo{a.info(asOf)}
	return len(due), m.svc.retry(ctx, func() error { return m.svc.pub.Deductions(ctx, due, about) })
}

// entriesOfGate journals the purchases again that the gate holds and the ledger does not have. What cannot be read ends.
// Position: the cursor of the gate.
func (m *Importer) entriesOfGate(ctx context.Context, _ Epoch, i Import) (Import, error) {
	cursor, _ := strconv.ParseUint(i.Position, 10, 64)
	page, build, next, err := m.svc.gate.Survey(ctx, i.ActivityID, cursor)
	if errors.Is(err, ErrNoGate) {
		return m.withoutGate(ctx, i)
	}
	if err != nil {
		return i, err
	}
	lost, broken, err := m.lostEntries(ctx, page)
	if err != nil {
		return i, err
	}
	if len(lost) > 0 {
		n, err := m.svc.gate.RejournalHolding(ctx, i.ActivityID, lost)
		if err != nil {
			return i, err
		}
		i.Counts.Journaled += int64(n)
	}
	if err := m.endUnreadable(ctx, i, build, broken); err != nil {
		return i, err
	}
	i.Counts.Unreadable += int64(len(broken))
	if next == 0 {
		return i.to(ImportWait), nil
	}
	i.Position = strconv.FormatUint(next, 10)
	return i, nil
}

// withoutGate builds the gate if it has to exist, as one that sells nothing yet. Else the import is complete.
func (m *Importer) withoutGate(ctx context.Context, i Import) (Import, error) {
	due, err := m.svc.Gates.Due(ctx, i.ActivityID)
	if err != nil {
		return i, err
	}
	if !due {
		return i.to(ImportDone), nil
	}
	if err := m.svc.Gates.Fill(ctx, i.ActivityID); err != nil {
		return i, err
	}
	return i.to(ImportWait), nil
}

// lostEntries returns the purchases of a page that hold units although the ledger does not have them and no operator has
// to decide about them, and the entries without a row that cannot be read.
func (m *Importer) lostEntries(
	ctx context.Context, page []ledger.StoredEntry,
) (lost []string, broken []ledger.StoredEntry, err error) {
	sns := make([]string, 0, len(page))
	for _, it := range page {
		if contract.ValidID(it.OrderSN) && (it.Stage.Holds() || it.Stage == ledger.StageBroken) {
			sns = append(sns, it.OrderSN)
		}
	}
	if len(sns) == 0 {
		return nil, nil, nil
	}
	rows, unreadable, err := m.rowsOf(ctx, sns)
	if err != nil {
		return nil, nil, err
	}
	open, err := m.svc.store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return nil, nil, err
	}
	for _, it := range page {
		_, known := rows[it.OrderSN]
		switch {
		case known || unreadable[it.OrderSN] || open[it.OrderSN] || !contract.ValidID(it.OrderSN):
		case it.Stage == ledger.StageBroken, it.Stage.Holds() && !readable(it):
			broken = append(broken, it)
		case it.Stage.Holds():
			lost = append(lost, it.OrderSN)
		}
	}
	return lost, broken, nil
}

// readable reports whether a message can carry the purchase into the ledger.
func readable(e ledger.StoredEntry) bool {
	return ledger.Purchasable(e.UserID, e.Lines)
}

// endUnreadable ends entries that cannot be read and that neither the ledger nor the order service has. A rejected row
// keeps a late message from reserving units for them. The buyer of an entry is known only from the gate's records of
// buyers; without it the entry is removed.
func (m *Importer) endUnreadable(ctx context.Context, i Import, build string, list []ledger.StoredEntry) error {
	if len(list) == 0 {
		return nil
	}
	now, err := m.svc.store.Now(ctx)
	if err != nil {
		return err
	}
	var findings []Finding
	for _, it := range list {
		err := m.svc.store.Ledger(ctx, []string{i.ActivityID}, func(tx LedgerTx) error {
			moves := ledger.NewMoves()
			rows, err := tx.Reservations([]string{it.OrderSN})
			if _, known := rows[it.OrderSN]; err != nil || known {
				return err
			}
			lost := contract.Reservation{OrderSN: it.OrderSN, ActivityID: i.ActivityID, ReservedAt: now}
			moves.Place(ledger.New(lost, now).Rejected(ledger.ReasonSystem))
			return tx.Apply(moves)
		})
		if err != nil {
			return err
		}
		to := ledger.EntryRepair{Entry: ledger.Entry{OrderSN: it.OrderSN}, Read: it.Stored, Remove: true}
		if readable(it) {
			to.Entry, to.Remove = it.Entry, false
			to.Stage, to.Reason, to.ExpiresAt = ledger.StageFailed, ledger.ReasonSystem, time.Time{}
		}
		if _, err := m.svc.gate.Repair(ctx, i.ActivityID, build, []ledger.EntryRepair{to}); err != nil {
			return err
		}
		m.svc.recorder.Incident(ctx, "entry of the gate cannot be read, and its purchase ends", "order_sn", it.OrderSN,
			"activity_id", i.ActivityID)
		findings = append(findings, Finding{
			Epoch: i.Epoch, ActivityID: i.ActivityID, Kind: FindingUnreadable, Subject: it.OrderSN,
			Detail: "the entry of the gate cannot be read; the purchase has ended",
		})
	}
	return m.find(ctx, findings)
}

// waitForLanding waits until the ledger has every purchase that the gate holds, or an operator has to decide about it.
// It journals those again that do not land. Position: the number of these repetitions.
func (m *Importer) waitForLanding(ctx context.Context, _ Epoch, i Import) (Import, error) {
	w, now := m.waits[i.ActivityID], m.svc.clock()
	if now.Before(w.next) {
		return i, errImportWaits
	}
	var lost []string
	for cursor := uint64(0); ; {
		page, _, next, err := m.svc.gate.Survey(ctx, i.ActivityID, cursor)
		if errors.Is(err, ErrNoGate) {
			return i.to(ImportEntries), nil
		}
		if err != nil {
			return i, err
		}
		part, broken, err := m.lostEntries(ctx, page)
		if err != nil {
			return i, err
		}
		if len(broken) > 0 { // damaged since
			return i.to(ImportEntries), nil
		}
		lost = append(lost, part...)
		if cursor = next; cursor == 0 {
			break
		}
	}
	if len(lost) == 0 {
		return i.to(ImportLanded), nil
	}
	w.next = now.Add(max(importPause, 10*m.svc.clock().Sub(now)))
	if w.journaled.IsZero() { // entriesOfGate has journaled them
		w.journaled = now
	}
	defer func() { m.waits[i.ActivityID] = w }()
	if now.Sub(w.journaled) < rejournalPause {
		return i, errImportWaits
	}
	for c := range slices.Chunk(lost, gateChunk) {
		n, err := m.svc.gate.RejournalHolding(ctx, i.ActivityID, c)
		if err != nil {
			return i, err
		}
		i.Counts.Journaled += int64(n)
	}
	w.journaled = now
	n, _ := strconv.Atoi(i.Position)
	i.Position = strconv.Itoa(n + 1)
	return i, nil
}

// followLedger makes each entry of the gate follow its row, page by page, and then settles every row that holds units.
// The status that a buyer reads does not fall: an entry that is ahead of its row stays. Position: the cursor of the gate.
func (m *Importer) followLedger(ctx context.Context, _ Epoch, i Import) (Import, error) {
	cursor, _ := strconv.ParseUint(i.Position, 10, 64)
	page, build, next, err := m.svc.gate.Survey(ctx, i.ActivityID, cursor)
	if errors.Is(err, ErrNoGate) {
		return i.to(ImportEntries), nil
	}
	if err != nil {
		return i, err
	}
	sns := make([]string, 0, len(page))
	for _, it := range page {
		if contract.ValidID(it.OrderSN) {
			sns = append(sns, it.OrderSN)
		}
	}
	rows, _, err := m.rowsOf(ctx, sns)
	if err != nil {
		return i, err
	}
	now, err := m.svc.store.Now(ctx)
	if err != nil {
		return i, err
	}
	var repairs []ledger.EntryRepair
	var findings []Finding
	for _, it := range page {
		r, ok := rows[it.OrderSN]
		if !ok || r.ActivityID != i.ActivityID {
			continue
		}
		f := ledger.Judge(&r, &it, now)
		switch {
		case f.Ahead:
			findings = append(findings, Finding{
				Epoch: i.Epoch, ActivityID: i.ActivityID, Kind: FindingAhead, Subject: r.OrderSN,
				Detail: "buyers read " + string(it.Stage) + "; the ledger has " + string(ledger.StageOf(r)),
			})
		case f.Kind == ledger.RepairOverruled && it.Stage == ledger.StagePaid: // only this reason ends it
			f.To.Stage, f.To.Reason = ledger.StageClosed, ledger.ReasonRefunded
			repairs = append(repairs, f.To)
		case f.Kind == ledger.RepairOverruled, f.Kind == ledger.RepairReleased, f.Kind == ledger.RepairRewritten:
			repairs = append(repairs, f.To)
		}
	}
	err = chunks(repairs, gateChunk, func(c []ledger.EntryRepair) error {
		_, err := m.svc.gate.Repair(ctx, i.ActivityID, build, c)
		return err
	})
	if err := errors.Join(err, m.find(ctx, findings)); err != nil {
		return i, err
	}
	i.Counts.Corrected += int64(len(repairs))
	i.Counts.Ahead += int64(len(findings))
	if next != 0 {
		i.Position = strconv.FormatUint(next, 10)
		return i, nil
	}
	if _, err := m.svc.Gates.settleSince(ctx, i.ActivityID, time.Time{}); err != nil {
		return i, err
	}
	return i.to(ImportRenew), nil
}

// renew gives the gate the figures of the database and the epoch. It holds the locks of the stock, so that no decision
// about an adjustment is made meanwhile.
func (m *Importer) renew(ctx context.Context, e Epoch, i Import) (Import, error) {
	lost, err := m.lostAdjustments(ctx, i.ActivityID)
	if errors.Is(err, ErrNoGate) {
		return i.to(ImportEntries), nil
	}
	if err != nil {
		return i, err
	}
	findings := make([]Finding, len(lost))
	for n, a := range lost {
		findings[n] = Finding{
			Epoch: e.Number, ActivityID: i.ActivityID, Kind: FindingAdjustment, Subject: a.ID, Detail: a.detail(),
		}
	}
	if err := m.find(ctx, findings); err != nil {
		return i, err
	}
	var activity *Activity
	err = m.svc.store.Ledger(ctx, []string{i.ActivityID}, func(tx LedgerTx) error {
		if activity = tx.Activity(i.ActivityID); activity == nil {
			return nil
		}
		decided, err := tx.DecidedAdjustments(i.ActivityID)
		if err != nil {
			return err
		}
		return m.svc.gate.RenewEpoch(ctx, i.ActivityID, e.Value, *activity, decided)
	})
	switch {
	case errors.Is(err, ErrNoGate):
		return i.to(ImportEntries), nil
	case err != nil:
		return i, err
	case activity == nil:
		return i.to(ImportForeign), nil
	}
	i.Counts.Adjustments += int64(len(lost))
	m.svc.recorder.Info(ctx, "the gate has the present epoch and sells again", "activity_id", i.ActivityID)
	named, err := m.svc.store.AnyActivity(ctx, i.ActivityID)
	if err != nil || named == nil {
		return i, err
	}
	return i.to(ImportDone), m.svc.gate.ReplaceSale(ctx, *named)
}

func (a KnownAdjustment) detail() string {
	if a.SKUID == "" {
		return "undone"
	}
	return "SKU " + a.SKUID + ", " + strconv.FormatInt(a.Delta, 10) + " units: the stock does not contain it any more"
}

// lostAdjustments returns the adjustments that the gate has and the database does not have.
func (m *Importer) lostAdjustments(ctx context.Context, activityID string) (lost []KnownAdjustment, err error) {
	for cursor := uint64(0); ; {
		page, next, err := m.svc.gate.AdjustmentsOfGate(ctx, activityID, cursor)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(page))
		for n, a := range page {
			ids[n] = a.ID
		}
		known, err := m.svc.store.KnownAdjustments(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if !known[a.ID] {
				lost = append(lost, a)
			}
		}
		if cursor = next; cursor == 0 {
			return lost, nil
		}
	}
}

// endForeign ends every purchase in a gate whose activity the database does not have, or has as a draft, and closes or
// refunds its order. Position: the cursor of the gate.
func (m *Importer) endForeign(ctx context.Context, e Epoch, i Import) (Import, error) {
	if i.Position == "" {
		err := m.svc.gate.EndSale(ctx, i.ActivityID)
		if errors.Is(err, ErrNoGate) {
			return i.to(ImportDone), nil
		}
		if err != nil {
			return i, err
		}
	}
	cursor, _ := strconv.ParseUint(i.Position, 10, 64)
	page, _, next, err := m.svc.gate.Survey(ctx, i.ActivityID, cursor)
	if errors.Is(err, ErrNoGate) {
		return i.to(ImportDone), nil
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
		return i.to(ImportDone), nil
	}
	i.Position = strconv.FormatUint(next, 10)
	return i, nil
}

func (m *Importer) endForeignEntries(
	ctx context.Context, e Epoch, activityID string, page []ledger.StoredEntry,
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
	outcomes, err := m.svc.requestClose(ctx, sns, ledger.ReasonRejected)
	if err != nil {
		return 0, err
	}
	var release, drop []ledger.Entry
	var refunds []string
	var findings []Finding
	for _, o := range outcomes {
		it := entries[o.OrderSN]
		end := ledger.Entry{OrderSN: o.OrderSN, UserID: it.UserID, Lines: it.Lines, Reason: ledger.ReasonSystem}
		switch {
		case o.Outcome == OutcomePaid:
			refunds = append(refunds, o.OrderSN)
			end.Reason = ledger.ReasonRefunded
		case o.Outcome == OutcomeRefunded, it.Stage == ledger.StagePaid:
			end.Reason = ledger.ReasonRefunded
		case o.Outcome == OutcomeClosed:
			end.Reason = ledger.ReasonRejected
		}
		if end.Reason == ledger.ReasonSystem {
			drop = append(drop, end)
		} else {
			release = append(release, end)
		}
		findings = append(findings, Finding{
			Epoch: e.Number, ActivityID: activityID, Kind: FindingForeign, Subject: o.OrderSN,
			Detail: "the database does not have the activity of this purchase: its order was " + o.Outcome,
		})
	}
	if err := m.find(ctx, findings); err != nil {
		return 0, err
	}
	if err := m.svc.refund(ctx, refunds); err != nil {
		return 0, err
	}
	return len(sns), errors.Join(
		chunks(release, gateChunk, func(c []ledger.Entry) error { return m.svc.gate.Release(ctx, activityID, c) }),
		chunks(drop, gateChunk, func(c []ledger.Entry) error { return m.svc.gate.Drop(ctx, activityID, c) }))
}
