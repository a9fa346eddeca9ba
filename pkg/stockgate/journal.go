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
	contract.Reservation
}

// idSeparator stands between the parts of a JournalEntry's ID. Knowing whose message it is spares Ack a look at the message.
const idSeparator = "/"

// ReadJournal hands out at most max entries to a relay's consumer: first those that some consumer has kept for longer than
// Options.ClaimAfter without acking them, then new ones. It never waits: nothing to do is an empty answer. A consumer
// group that was lost is made again and reads from the beginning. A gate that is absent may still have a journal; a
// journal that is absent is empty. One script call, O(max).
func (g *Gate) ReadJournal(ctx context.Context, ref Ref, consumer string, max int) ([]JournalEntry, error) {
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
		e, err := decodeJournal(ref, pair[0], pair[1])
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Ack removes published entries from the journal. It needs no gate, and an id that is not there is fine. Any number of
// ids, 256 to a script call, O(ids).
func (g *Gate) Ack(ctx context.Context, ref Ref, ids []string) error {
	args := make([]any, 0, 2*len(ids))
	for _, id := range ids {
		message, orderSN, _ := strings.Cut(id, idSeparator)
		args = append(args, message, orderSN)
	}
	return g.runBatches(ctx, scriptAck, ref, 2, args)
}

// Rejournal journals purchases again that are queued and not known to be in the ledger, if their last journal entry was
// acked, as long as the journal has room. It tells how many it journaled. Any number of order_sns, 256 to a script call,
// O(order_sns).
func (g *Gate) Rejournal(ctx context.Context, ref Ref, orderSNs []string) (int, error) {
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

// decodeJournal reads "order_sn|user|lines|reserved|trace", as the reserve and rejournal scripts write it.
func decodeJournal(ref Ref, id, stored string) (JournalEntry, error) {
	f := strings.Split(stored, "|")
	if len(f) != 5 {
		return JournalEntry{}, fmt.Errorf("stockgate: journal entry %s has %d fields", id, len(f))
	}
	lines, err := decodeLines(f[2])
	if err != nil {
		return JournalEntry{}, fmt.Errorf("journal entry %s: %w", id, err)
	}
	at, err := decodeTime(f[3])
	if err != nil {
		return JournalEntry{}, fmt.Errorf("journal entry %s: %w", id, err)
	}
	return JournalEntry{ID: id + idSeparator + f[0], Reservation: contract.Reservation{
		OrderSN: f[0], UserID: f[1], ActivityID: ref.ActivityID,
		Bucket: ref.Bucket, Lines: lines, ReservedAt: at, Traceparent: f[4],
	}}, nil
}
