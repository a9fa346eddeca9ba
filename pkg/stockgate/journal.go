package stockgate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"flashsale.internal/pkg/contract"
)

// JournalEntry is a journaled reservation, which is still to be published.
type JournalEntry struct {
	ID string // for Ack: the id of the message in the journal, and its order_sn
	// Err is the reason why the message cannot be decoded; only ID is set then. It should be acked all the same: as
	// long as its purchase is in the gate and not in the ledger, Rejournal writes it again.
	Err error
	contract.Reservation
}

// idSeparator separates message id and order_sn in JournalEntry.ID. The order_sn in it saves Ack from reading the
// message.
const idSeparator = "/"

// ReadJournal returns at most max entries for a consumer, which is a relay. First come entries that any consumer has
// read more than Options.ClaimAfter ago and not acked, then new ones. It never waits: an empty result means that there
// is nothing to publish. It creates the consumer group if that was lost; reading then starts at the beginning. It
// needs no gate; an absent journal is empty. One script call, O(max).
func (g *Gate) ReadJournal(ctx context.Context, ref contract.GateRef, consumer string, max int) (
	[]JournalEntry, error,
) {
	if consumer == "" || max < 1 {
		return nil, fmt.Errorf("stockgate: journal consumer %q or maximum %d is invalid", consumer, max)
	}
	reply, err := g.runStrings(ctx, scriptRead, ref, consumer, min(max, maxPage), g.opts.ClaimAfter.Milliseconds())
	if err != nil {
		return nil, err
	}
	entries := make([]JournalEntry, 0, len(reply)/2)
	for pair := range slices.Chunk(reply, 2) {
		if len(pair) != 2 {
			return nil, fmt.Errorf("stockgate: journal id without an entry in the reply")
		}
		entries = append(entries, newJournalEntry(ref, pair[0], pair[1]))
	}
	return entries, nil
}

// Ack removes published entries from the journal. It needs no gate and ignores ids that the journal does not have. It
// takes any number of ids, 256 to a script call, O(ids).
func (g *Gate) Ack(ctx context.Context, ref contract.GateRef, ids []string) error {
	args := make([]any, 0, 2*len(ids))
	for _, id := range ids {
		message, orderSN, _ := strings.Cut(id, idSeparator)
		args = append(args, message, orderSN)
	}
	return g.runBatches(ctx, scriptAck, ref, 2, args)
}

// JournalLen returns the number of entries that are not acked yet. It needs no gate; an absent journal is empty. One
// round trip, O(1).
func (g *Gate) JournalLen(ctx context.Context, ref contract.GateRef) (int64, error) {
	if err := validateRef(ref); err != nil {
		return 0, err
	}
	return call(ctx, g, func(ctx context.Context) (int64, error) {
		return g.rdb.XLen(ctx, keyOf(ref, "journal")).Result()
	})
}

// Rejournal journals purchases again that are queued and not known to be in the ledger, if their last journal entry
// was acked or lost. It stops when the journal is full, and returns how many it journaled. It takes any number of
// order_sns, 256 to a script call, O(order_sns).
func (g *Gate) Rejournal(ctx context.Context, ref contract.GateRef, orderSNs []string) (int, error) {
	return g.rejournal(ctx, ref, "lost", orderSNs)
}

// RejournalHolding is Rejournal of every purchase that holds units, whatever its status, for a ledger that has lost it.
// The status that its buyer reads does not change. A created or paid entry stays so until a Release or Drop.
func (g *Gate) RejournalHolding(ctx context.Context, ref contract.GateRef, orderSNs []string) (int, error) {
	return g.rejournal(ctx, ref, "any", orderSNs)
}

func (g *Gate) rejournal(ctx context.Context, ref contract.GateRef, which string, orderSNs []string) (int, error) {
	journaled := 0
	for batch := range slices.Chunk(orderSNs, batchSize) {
		args, err := idArgs(batch)
		if err != nil {
			return journaled, err
		}
		n, err := g.runInt(ctx, scriptRejournal, ref, append([]any{g.opts.JournalMax, which}, args...)...)
		if err != nil {
			return journaled, err
		}
		journaled += int(n)
	}
	return journaled, nil
}

// newJournalEntry decodes a message of the journal. One that cannot be decoded gets an Err and does not delay the
// others.
func newJournalEntry(ref contract.GateRef, id, stored string) JournalEntry {
	orderSN, _, _ := strings.Cut(stored, "|")
	if !contract.ValidID(orderSN) {
		orderSN = ""
	}
	e := JournalEntry{ID: id + idSeparator + orderSN}
	r, err := decodeJournal(ref, stored)
	if err != nil { // the error does not quote the message, which may name a buyer
		e.Err = fmt.Errorf("journal entry %s of %d bytes: %w", e.ID, len(stored), err)
		return e
	}
	e.Reservation = r
	return e
}

// decodeJournal decodes "order_sn|user|lines|reserved|trace", as the reserve and rejournal scripts write it. It accepts
// whatever can be published, also invalid values: inventory makes a dead letter of those, which an operator can reject.
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
	if len(lines) > contract.MaxLines { // cannot be published
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
