package sweep

import (
	"context"
	"errors"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// unlandedPage bounds one page of a gate's unlanded entries. A gate never journals more entries within one
// millisecond, which is the resolution of the cursor.
const unlandedPage = 1000

// rejournalBatch bounds one script call.
const rejournalBatch = 128

// JournalConfig holds the pauses of Journal.
type JournalConfig struct {
	// Age from which an entry absent from the ledger is journaled again; doubles up to RejournalCap.
	RejournalAfter time.Duration
	RejournalCap   time.Duration
}

// JournalStore is what Journal reads in the tables. broken are reservations whose lines cannot be read.
type JournalStore interface {
	ReadableReservations(
		ctx context.Context, orderSNs []string,
	) (rows map[string]ledger.Row, broken []ledger.Row, err error)
	OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error)
}

// JournalGate is what Journal reads and writes in the gates.
type JournalGate interface {
	Registered(ctx context.Context) ([]string, error)
	Now(ctx context.Context) (time.Time, error) // Redis's clock
	// Unlanded lists queued entries that were last journaled within these times, the oldest first.
	Unlanded(ctx context.Context, activityID string, from, before time.Time, limit int) ([]core.GateEntry, error)
	Rejournal(ctx context.Context, activityID string, orderSNs []string) (int, error)
}

// JournalDeps are the ports and settings of Journal.
type JournalDeps struct {
	Store JournalStore
	Gate  JournalGate
	Gates interface { // the part of gates.Syncer
		Sync(ctx context.Context, rows []ledger.Row) error
	}
	Recorder  Recorder
	Incidents Incidents
	Config    JournalConfig
}

// Journal journals queued purchases again that the ledger does not have. Redis lost their journal entry, or the broker
// lost the message after the relay had acknowledged the entry; a process with its own broker loses it when it is
// killed. Purchases that the ledger has are synced to the gate instead.
//
// Run must not be called concurrently in one process.
type Journal struct {
	JournalDeps
	journaled *backoffs
	cursors   map[string]time.Time // where the next page of a gate begins; absent: with the oldest
}

// NewJournal makes the sweep.
func NewJournal(d JournalDeps) *Journal {
	return &Journal{
		JournalDeps: d, journaled: newBackoffs(d.Config.RejournalAfter, d.Config.RejournalCap),
		cursors: map[string]time.Time{},
	}
}

// Run processes one page of each gate. Ages are measured by Redis's clock, which stamped the entries.
func (w *Journal) Run(ctx context.Context) error {
	activityIDs, err := w.Gate.Registered(ctx)
	if err != nil {
		return err
	}
	redisNow, err := w.Gate.Now(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, activityID := range activityIDs {
		errs = append(errs, w.sweepGate(ctx, activityID, redisNow))
	}
	w.journaled.forgetOld(redisNow)
	return errors.Join(errs...)
}

func (w *Journal) sweepGate(ctx context.Context, activityID string, redisNow time.Time) error {
	entries, err := w.page(ctx, activityID, redisNow)
	if err != nil || len(entries) == 0 {
		return err
	}
	sns := make([]string, len(entries))
	for i, e := range entries {
		sns[i] = e.OrderSN
	}
	rows, broken, err := w.Store.ReadableReservations(ctx, sns)
	if err != nil {
		return err
	}
	w.Incidents.RaiseUnreadable(ctx, broken)
	// Their purchases have landed, and no gate can be synced with them before an operator corrects the rows.
	entries = slices.DeleteFunc(entries, func(e core.GateEntry) bool {
		return slices.ContainsFunc(broken, func(r ledger.Row) bool { return r.OrderSN == e.OrderSN })
	})
	open, err := w.Store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return err
	}
	landed, lost := w.split(activityID, entries, rows, open, redisNow)
	// A gate that cannot be synced gets the lost ones again all the same.
	return errors.Join(w.Gates.Sync(ctx, landed), w.rejournal(ctx, activityID, lost, redisNow))
}

// page reads one page of unlanded entries and moves the cursor behind it. The next page follows in the next round, so
// that entries that wait for their pause or for an operator do not block the ones behind them.
func (w *Journal) page(ctx context.Context, activityID string, redisNow time.Time) ([]core.GateEntry, error) {
	from := w.cursors[activityID]
	entries, err := w.Gate.Unlanded(ctx, activityID, from, redisNow.Add(-w.Config.RejournalAfter), unlandedPage)
	if errors.Is(err, core.ErrNoGate) {
		return nil, nil // the gate controller builds it
	}
	if err != nil {
		return nil, err
	}
	if len(entries) < unlandedPage {
		delete(w.cursors, activityID)
	} else if next := entries[len(entries)-1].JournaledAt; next.After(from) {
		w.cursors[activityID] = next
	} else {
		w.cursors[activityID] = from.Add(time.Millisecond)
	}
	return entries, nil
}

// split separates the entries that the ledger has from those that were lost and are due to be journaled again. An
// entry without a row is not journaled again while it has an open dead letter. An entry whose row is another purchase
// has none either: its message becomes a dead letter, which an operator rejects.
func (w *Journal) split(
	activityID string, entries []core.GateEntry, rows map[string]ledger.Row, open map[string]bool,
	redisNow time.Time,
) (landed []ledger.Row, lost []string) {
	for _, e := range entries {
		if r, ok := rows[e.OrderSN]; ok && r.UserID == e.UserID && r.ActivityID == activityID {
			landed = append(landed, r)
			continue
		}
		if !open[e.OrderSN] && w.journaled.due(e.OrderSN, redisNow) {
			lost = append(lost, e.OrderSN)
		}
	}
	return landed, lost
}

func (w *Journal) rejournal(ctx context.Context, activityID string, lost []string, redisNow time.Time) error {
	for c := range slices.Chunk(lost, rejournalBatch) {
		n, err := w.Gate.Rejournal(ctx, activityID, c)
		if err != nil {
			return err
		}
		if n > 0 {
			w.Recorder.Info(ctx, "queued reservations were journaled again", "activity_id", activityID, "entries",
				n)
		}
		w.journaled.attempted(c, redisNow)
	}
	return nil
}
