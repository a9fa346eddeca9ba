package stockgate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"flashsale.internal/pkg/contract"
)

// JournalEntry is an accepted reservation on its way to the broker.
type JournalEntry struct {
	ID string // for Ack: the message's id in the journal, and whose it is
	// Err says why it cannot be read; nothing else but ID is set then. It can be acked all the same: while
	// its purchase is in the gate and not in the ledger, Rejournal writes it anew.
	Err error
	contract.Reservation
}

// idSeparator stands between the parts of a JournalEntry's ID. Knowing whose message it is spares Ack a look at the message.
const idSeparator = "/"

// ReadJournal hands out at most max entries to a relay's consumer: first those that some consumer has kept for longer than
// Options.ClaimAfter without acking them, then new ones. It never waits: nothing to do is an empty answer. A consumer
// group that was lost is made again and reads from the beginning. A gate that is absent may still have a journal; a
// journal that is absent is empty. One script call, O(max).
func (g *Gate) ReadJournal(ctx context.Context, ref contract.GateRef, consumer string, max int) ([]JournalEntry, error) {
	if consumer == "" || max < 1 {
		return nil, fmt.Errorf("stockgate: reading the journal needs a consumer's name and a positive number")
	}
	reply, err := g.runStrings(ctx, scriptRead, ref, consumer, min(max, maxPage), g.opts.ClaimAfter.Milliseconds())
	if err != nil {
		return nil, err
	}
	entries := make([]JournalEntry, 0, len(reply)/2)
	for pair := range slices.Chunk(reply, 2) {
		if len(pair) != 2 {
			return nil, fmt.Errorf("stockgate: a journal id without its entry")
		}
		entries = append(entries, readJournal(ref, pair[0], pair[1]))
	}
	return entries, nil
}

// Ack removes published entries from the journal. It needs no gate, and an id that is not there is fine. Any number of
// ids, 256 to a script call, O(ids).
func (g *Gate) Ack(ctx context.Context, ref contract.GateRef, ids []string) error {
	args := make([]any, 0, 2*len(ids))
	for _, id := range ids {
		message, orderSN, _ := strings.Cut(id, idSeparator)
		args = append(args, message, orderSN)
	}
	return g.runBatches(ctx, scriptAck, ref, 2, args)
}

// JournalLen returns the number of entries that are not acked yet. A gate that is absent may still have a journal; a journal
// that is absent is empty. One round trip, O(1).
func (g *Gate) JournalLen(ctx context.Context, ref contract.GateRef) (int64, error) {
	if err := validateRef(ref); err != nil {
		return 0, err
	}
	return call(ctx, g, func(ctx context.Context) (int64, error) {
		return g.rdb.XLen(ctx, keyOf(ref, "journal")).Result()
	})
}

// Rejournal journals purchases again that are queued and not known to be in the ledger, if their last journal entry was
// acked, as long as the journal has room. It tells how many it journaled. Any number of order_sns, 256 to a script call,
// O(order_sns).
func (g *Gate) Rejournal(ctx context.Context, ref contract.GateRef, orderSNs []string) (int, error) {
	journaled := 0
	for batch := range slices.Chunk(orderSNs, batchSize) {
		args, err := idArgs(batch)
		if err != nil {
			return journaled, err
		}
		n, err := g.runInt(ctx, scriptRejournal, ref, append([]any{g.opts.JournalMax}, args...)...)
		if err != nil {
			return journaled, err
		}
		journaled += int(n)
	}
	return journaled, nil
}

// readJournal reads an entry with those around it, which one that cannot be read must not hold up.
func readJournal(ref contract.GateRef, id, stored string) JournalEntry {
	orderSN, _, _ := strings.Cut(stored, "|")
	if !contract.ValidID(orderSN) {
		orderSN = ""
	}
	e := JournalEntry{ID: id + idSeparator + orderSN}
	r, err := decodeJournal(ref, stored)
	if err != nil { // without its text, which may name a buyer
		e.Err = fmt.Errorf("journal entry %s of %d bytes: %w", e.ID, len(stored), err)
		return e
	}
	e.Reservation = r
	return e
}

// decodeJournal reads "order_sn|user|lines|reserved|trace", as the reserve and rejournal scripts write it. What can be published
// is read, right or wrong: inventory makes a dead letter of it, which a person can reject.
func decodeJournal(ref contract.GateRef, stored string) (contract.Reservation, error) {
	f := strings.Split(stored, "|")
	if len(f) != 5 {
		return contract.Reservation{}, fmt.Errorf("%w: %d fields", errEntry, len(f))
	}
	if !contract.ValidID(f[0]) {
		return contract.Reservation{}, fmt.Errorf("%w: no order_sn", errEntry)
	}
	lines, err := decodeLines(f[2])
	if err != nil {
		return contract.Reservation{}, err
	}
	if len(lines) > contract.MaxLines { // no message would take it
		return contract.Reservation{}, fmt.Errorf("%w: %d lines", errEntry, len(lines))
	}
	at, err := decodeTime(f[3])
	if err != nil {
		return contract.Reservation{}, err
	}
	return contract.Reservation{
		OrderSN: f[0], UserID: f[1], ActivityID: ref.ActivityID,
		Bucket: ref.Bucket, Lines: lines, ReservedAt: at, Traceparent: f[4],
	}, nil
}
