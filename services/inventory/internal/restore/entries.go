package restore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// entriesOfGate journals the purchases again that the gate holds and the ledger does not have. What cannot be read ends.
// Position: the cursor of the gate.
func (m *Importer) entriesOfGate(ctx context.Context, _ core.Epoch, i core.Import) (core.Import, error) {
	cursor, _ := strconv.ParseUint(i.Position, 10, 64)
	page, build, next, err := m.Entries.Survey(ctx, i.ActivityID, cursor)
	if errors.Is(err, core.ErrNoGate) {
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
		n, err := m.Entries.RejournalHolding(ctx, i.ActivityID, lost)
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
		return atStep(i, core.ImportWait), nil
	}
	i.Position = strconv.FormatUint(next, 10)
	return i, nil
}

// withoutGate builds the gate if it has to exist, as one that sells nothing yet. Else the import is complete.
func (m *Importer) withoutGate(ctx context.Context, i core.Import) (core.Import, error) {
	due, err := m.Gates.Due(ctx, i.ActivityID)
	if err != nil {
		return i, err
	}
	if !due {
		return atStep(i, core.ImportDone), nil
	}
	if err := m.Gates.Fill(ctx, i.ActivityID); err != nil {
		return i, err
	}
	return atStep(i, core.ImportWait), nil
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
	open, err := m.Tables.OpenDeadLetters(ctx, sns)
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
func (m *Importer) endUnreadable(ctx context.Context, i core.Import, build string, list []ledger.StoredEntry) error {
	if len(list) == 0 {
		return nil
	}
	var findings []core.Finding
	for _, it := range list {
		err := m.Tables.Ledger(ctx, []string{i.ActivityID}, func(tx core.LedgerTx) error {
			moves := ledger.NewMoves()
			rows, err := tx.Reservations([]string{it.OrderSN})
			if _, known := rows[it.OrderSN]; err != nil || known {
				return err
			}
			now, err := tx.Now()
			if err != nil {
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
		if _, err := m.Entries.Repair(ctx, i.ActivityID, build, []ledger.EntryRepair{to}); err != nil {
			return err
		}
		m.Recorder.Incident(ctx, "entry of the gate cannot be read, and its purchase ends", "order_sn", it.OrderSN,
			"activity_id", i.ActivityID)
		findings = append(findings, core.Finding{
			Epoch: i.Epoch, ActivityID: i.ActivityID, Kind: core.FindingUnreadable, Subject: it.OrderSN,
			Detail: "the entry of the gate cannot be read; the purchase has ended",
		})
	}
	return m.find(ctx, findings)
}

// waitForLanding waits until the ledger has every purchase that the gate holds, or an operator has to decide about it.
// It journals those again that do not land. Position: the number of these repetitions.
func (m *Importer) waitForLanding(ctx context.Context, _ core.Epoch, i core.Import) (core.Import, error) {
	w, now := m.waits[i.ActivityID], m.now()
	if now.Before(w.next) {
		return i, errImportWaits
	}
	var lost []string
	for cursor := uint64(0); ; {
		page, _, next, err := m.Entries.Survey(ctx, i.ActivityID, cursor)
		if errors.Is(err, core.ErrNoGate) {
			return atStep(i, core.ImportEntries), nil
		}
		if err != nil {
			return i, err
		}
		part, broken, err := m.lostEntries(ctx, page)
		if err != nil {
			return i, err
		}
		if len(broken) > 0 { // damaged since
			return atStep(i, core.ImportEntries), nil
		}
		lost = append(lost, part...)
		if cursor = next; cursor == 0 {
			break
		}
	}
	if len(lost) == 0 {
		return atStep(i, core.ImportLanded), nil
	}
	w.next = now.Add(max(importPause, 10*m.now().Sub(now)))
	if w.journaled.IsZero() { // entriesOfGate has journaled them
		w.journaled = now
	}
	defer func() { m.waits[i.ActivityID] = w }()
	if now.Sub(w.journaled) < rejournalPause {
		return i, errImportWaits
	}
	for c := range slices.Chunk(lost, journaledPerCall) {
		n, err := m.Entries.RejournalHolding(ctx, i.ActivityID, c)
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
func (m *Importer) followLedger(ctx context.Context, _ core.Epoch, i core.Import) (core.Import, error) {
	cursor, _ := strconv.ParseUint(i.Position, 10, 64)
	page, build, next, err := m.Entries.Survey(ctx, i.ActivityID, cursor)
	if errors.Is(err, core.ErrNoGate) {
		return atStep(i, core.ImportEntries), nil
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
	var repairs []ledger.EntryRepair
	var findings []core.Finding
	for _, it := range page {
		r, ok := rows[it.OrderSN]
		if !ok || r.ActivityID != i.ActivityID {
			continue
		}
		f := ledger.Judge(&r, &it, time.Time{}) // the entry is there, so no age matters
		if !r.Holds() && it.UserID != r.UserID && it.Stage != ledger.StageBroken && readable(it) {
			f.To.UserID, f.To.Lines = it.UserID, it.Lines // the buyer in the gate reads how it ended
		}
		switch {
		case f.Ahead:
			findings = append(findings, core.Finding{
				Epoch: i.Epoch, ActivityID: i.ActivityID, Kind: core.FindingAhead, Subject: r.OrderSN,
				Detail: "buyers read " + string(it.Stage) + "; the ledger has " + string(ledger.StageOf(r)),
			})
		case f.Kind == ledger.RepairOverruled && it.Stage == ledger.StagePaid: // only this reason ends it
			f.To.Stage, f.To.Reason = ledger.StageClosed, ledger.ReasonRefunded
			repairs = append(repairs, f.To)
		case f.Kind == ledger.RepairOverruled, f.Kind == ledger.RepairReleased, f.Kind == ledger.RepairRewritten:
			repairs = append(repairs, f.To)
		}
	}
	done, err := m.Entries.Repair(ctx, i.ActivityID, build, repairs)
	if err := errors.Join(err, m.find(ctx, findings)); err != nil {
		return i, err
	}
	for _, changed := range done {
		if changed { // what moved meanwhile is left to its own sync and the reconciler
			i.Counts.Corrected++
		}
	}
	i.Counts.Ahead += int64(len(findings))
	if next != 0 {
		i.Position = strconv.FormatUint(next, 10)
		return i, nil
	}
	if err := m.Gates.SettleAll(ctx, i.ActivityID); err != nil {
		return i, err
	}
	return atStep(i, core.ImportRenew), nil
}
