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
	Recorder      Recorder
	Incidents     Incidents
	BrokerlessFor func() time.Duration // for how long messages have been calls; 0 while RocketMQ takes them
	Config        JournalConfig
}

// Journal journals queued purchases again that the ledger does not have. Redis lost their journal entry, or the broker
// lost the message after the relay had acknowledged the entry; a process with its own broker loses it when it is
// killed. Purchases that the ledger has are synced to the gate instead.
//
// Once messages are calls, an entry that was journaled before is journaled again from brokerlessAge on. One that is still
// in the journal is not: its relay publishes it.
//
// Run must not be called concurrently in one process.
type Journal struct {
	JournalDeps
	transport transport
	journaled *backoffs
	cursors   map[string]time.Time // where the next page of a gate begins; absent: with the oldest
}

// NewJournal makes the sweep.
func NewJournal(d JournalDeps) *Journal {
	w := &Journal{JournalDeps: d, transport: transport{brokerlessFor: d.BrokerlessFor}}
	w.startAnew()
	return w
}

// startAnew drops the pauses of entries and begins with the oldest of each gate.
func (w *Journal) startAnew() {
	w.journaled, w.cursors = newBackoffs(w.Config.RejournalAfter, w.Config.RejournalCap), map[string]time.Time{}
}

// Run processes one page of each gate in turns, and up to brokerlessPages while messages are calls. Ages are measured
// by Redis's clock, which stamped the entries.
func (w *Journal) Run(ctx context.Context) error {
	activityIDs, err := w.Gate.Registered(ctx)
	if err != nil {
		return err
	}
	redisNow, err := w.Gate.Now(ctx)
	if err != nil {
		return err
	}
	before, pages := redisNow.Add(-w.Config.RejournalAfter), 1
	brokerlessFor, switched := w.transport.next(redisNow)
	if brokerlessFor > 0 {
		pages = brokerlessPages
		if sent := sentBefore(redisNow, brokerlessFor); sent.After(before) {
			before = sent
		}
	}
	if switched { // what was journaled again through RocketMQ may be lost as well
		w.startAnew()
	}
	var errs []error
	for ; pages > 0 && ctx.Err() == nil; pages-- {
		var more []string
		for _, activityID := range activityIDs {
			full, err := w.sweepGate(ctx, activityID, redisNow, before)
			errs = append(errs, err)
			if full && err == nil {
				more = append(more, activityID)
			}
		}
		activityIDs = more
	}
	w.journaled.forgetOld(redisNow)
	return errors.Join(errs...)
}

// sweepGate processes one page of the entries of a gate that were last journaled before a time. full reports that
// others may follow.
func (w *Journal) sweepGate(
	ctx context.Context, activityID string, redisNow, before time.Time,
) (full bool, err error) {
	entries, full, err := w.page(ctx, activityID, before)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	sns := make([]string, len(entries))
	for i, e := range entries {
		sns[i] = e.OrderSN
	}
	rows, broken, err := w.Store.ReadableReservations(ctx, sns)
	if err != nil {
		return false, err
	}
	w.Incidents.RaiseUnreadable(ctx, broken)
	// Their purchases have landed, and no gate can be synced with them before an operator corrects the rows.
	entries = slices.DeleteFunc(entries, func(e core.GateEntry) bool {
		return slices.ContainsFunc(broken, func(r ledger.Row) bool { return r.OrderSN == e.OrderSN })
	})
	open, err := w.Store.OpenDeadLetters(ctx, sns)
	if err != nil {
		return false, err
	}
	landed, lost := w.split(activityID, entries, rows, open, redisNow)
	// A gate that cannot be synced gets the lost ones again all the same.
	return full, errors.Join(w.Gates.Sync(ctx, landed), w.rejournal(ctx, activityID, lost, redisNow))
}

// page reads one page of unlanded entries and moves the cursor behind it. The next page follows in the next round or
// turn, so that entries that wait for their pause or for an operator do not block the ones behind them.
func (w *Journal) page(
	ctx context.Context, activityID string, before time.Time,
) (entries []core.GateEntry, full bool, err error) {
	from := w.cursors[activityID]
	entries, err = w.Gate.Unlanded(ctx, activityID, from, before, unlandedPage)
	if errors.Is(err, core.ErrNoGate) {
		return nil, false, nil // the gate controller builds it
	}
	if err != nil {
		return nil, false, err
	}
	full = len(entries) == unlandedPage
	if !full {
		delete(w.cursors, activityID)
	} else if next := entries[len(entries)-1].JournaledAt; next.After(from) {
		w.cursors[activityID] = next
	} else {
		w.cursors[activityID] = from.Add(time.Millisecond)
	}
	return entries, full, nil
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
