package stockgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/contract"
)

// JournalEntry is a journaled reservation, which is still to be published.
type JournalEntry struct {
	// ID is for Ack: the id of the entry in the journal, and what Ack subtracts from the journal's counters. Reservations
	// of one entry have the same ID. They must be acked together, once all of them are published.
	ID string
	// Err is the reason why the reservation cannot be decoded; only ID is set then. It should be acked all the same: as
	// long as its purchase is in the gate and not in the ledger, Rejournal writes it again.
	Err error
	contract.Reservation
}

// idSeparator separates the fields of JournalEntry.ID: id, number of purchases, their units as the lines of a purchase.
const idSeparator = "/"

// ReadJournal returns about max reservations for a consumer, which is a relay. First come those that any consumer has
// read more than Options.ClaimAfter ago and not acked, then new ones. Reservations of one entry are returned together
// and in a row; so there are fewer than max if those of the next entry do not fit, and more if the first entry alone
// has more. more reports that others wait. ReadJournal never waits: an empty result means that there is nothing to
// publish. It creates the consumer group if that was lost; reading then starts at the beginning. It needs no gate; an
// absent journal is empty. One script call, O(max).
func (g *Gate) ReadJournal(ctx context.Context, activityID, consumer string, max int) (
	entries []JournalEntry, more bool, err error,
) {
	if consumer == "" || max < 1 {
		return nil, false, fmt.Errorf("stockgate: journal consumer %q or maximum %d is invalid", consumer, max)
	}
	reply, err := g.runStrings(ctx, scriptRead, activityID, consumer, min(max, maxPage), g.opts.ClaimAfter.Milliseconds())
	if err != nil {
		return nil, false, err
	}
	if len(reply)%2 != 1 {
		return nil, false, fmt.Errorf("stockgate: read returned %d values", len(reply))
	}
	entries = make([]JournalEntry, 0, min(max, maxPage))
	for pair := range slices.Chunk(reply[1:], 2) {
		entries = appendJournalEntry(entries, activityID, pair[0], pair[1])
	}
	return entries, reply[0] == "1", nil
}

// Unacked returns the reservations that each consumer has read and not acked. It reads the first 1000 entries of them
// and changes nothing. It needs no gate; an absent journal is empty. One script call, O(entries).
func (g *Gate) Unacked(ctx context.Context, activityID string) (map[string][]JournalEntry, error) {
	reply, err := g.runStrings(ctx, scriptUnacked, activityID, maxPage)
	if err != nil {
		return nil, err
	}
	if len(reply)%3 != 0 {
		return nil, fmt.Errorf("stockgate: unacked returned %d values", len(reply))
	}
	read := map[string][]JournalEntry{}
	for triple := range slices.Chunk(reply, 3) {
		read[triple[0]] = appendJournalEntry(read[triple[0]], activityID, triple[1], triple[2])
	}
	return read, nil
}

// Ack removes published entries from the journal. It needs no gate and ignores ids that the journal does not have. It
// takes any number of ids, 256 entries to a script call, O(ids).
func (g *Gate) Ack(ctx context.Context, activityID string, ids []string) error {
	args := make([]any, 0, 3*len(ids))
	last := ""
	for _, id := range ids {
		if id == last { // another reservation of the same entry
			continue
		}
		last = id
		entry, rest, _ := strings.Cut(id, idSeparator)
		purchases, units, _ := strings.Cut(rest, idSeparator)
		args = append(args, entry, purchases, units)
	}
	return g.runBatches(ctx, scriptAck, activityID, 3, args)
}

// JournalLen returns the number of journaled purchases that are not acked yet. It needs no gate; an absent journal is
// empty. One round trip, O(1).
func (g *Gate) JournalLen(ctx context.Context, activityID string) (int64, error) {
	if err := validateActivity(activityID); err != nil {
		return 0, err
	}
	return call(ctx, g, func(ctx context.Context) (int64, error) {
		p := g.rdb.Pipeline()
		entries, joined := p.XLen(ctx, keyOf(activityID, "journal")), p.HGet(ctx, keyOf(activityID, "journaled"), "joined")
		if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return 0, err
		}
		if entries.Val() == 0 {
			return 0, nil
		}
		n, _ := joined.Int64() // 0 if absent: each entry has one purchase
		return entries.Val() + max(0, n), nil
	})
}

// Rejournal journals purchases again that are queued and not known to be in the ledger, if their last journal entry
// was acked or lost. It stops when the journal is full, and returns how many it journaled. It takes any number of
// order_sns, 256 to a script call, O(order_sns).
func (g *Gate) Rejournal(ctx context.Context, activityID string, orderSNs []string) (int, error) {
	return g.rejournal(ctx, activityID, "lost", orderSNs)
}

// RejournalHolding is Rejournal of every purchase that holds units, whatever its status, for a ledger that has lost it.
// The status that its buyer reads does not change. A created or paid entry stays so until a Release or Drop.
func (g *Gate) RejournalHolding(ctx context.Context, activityID string, orderSNs []string) (int, error) {
	return g.rejournal(ctx, activityID, "any", orderSNs)
}

func (g *Gate) rejournal(ctx context.Context, activityID, which string, orderSNs []string) (int, error) {
	journaled := 0
	for batch := range slices.Chunk(orderSNs, batchSize) {
		args, err := idArgs(batch)
		if err != nil {
			return journaled, err
		}
		n, err := g.runInt(ctx, scriptRejournal, activityID, append([]any{g.opts.JournalMax, which}, args...)...)
		if err != nil {
			return journaled, err
		}
		journaled += int(n)
	}
	return journaled, nil
}

// appendJournalEntry appends the reservations of a journal entry, one on each line. One that cannot be decoded gets an
// Err and does not delay the others.
func appendJournalEntry(entries []JournalEntry, activityID, id, stored string) []JournalEntry {
	first := len(entries)
	units := map[string]int64{}
	for record := range strings.SplitSeq(stored, "\n") {
		r, err := decodeJournal(activityID, record)
		if err != nil { // the error does not quote the record, which may name a buyer
			orderSN, _, _ := strings.Cut(record, "|")
			if !contract.ValidID(orderSN) {
				orderSN = ""
			}
			err = fmt.Errorf("journal entry %s, order_sn %q, of %d bytes: %w", id, orderSN, len(record), err)
		}
		for _, l := range r.Lines {
			units[l.SKUID] += l.Qty
		}
		entries = append(entries, JournalEntry{Err: err, Reservation: r})
	}
	lines := make([]Line, 0, len(units))
	for sku, n := range units {
		lines = append(lines, Line{SKUID: sku, Qty: n})
	}
	ackID := id + idSeparator + strconv.Itoa(len(entries)-first) + idSeparator + encodeLines(lines)
	for i := range entries[first:] {
		entries[first+i].ID = ackID
	}
	return entries
}

// decodeJournal decodes "order_sn|user|lines|reserved|trace", as the reserve and rejournal scripts write it. It accepts
// whatever can be published, also invalid values: inventory makes a dead letter of those, which an operator can reject.
func decodeJournal(activityID, stored string) (contract.Reservation, error) {
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
		OrderSN: f[0], UserID: f[1], ActivityID: activityID,
		Lines: lines, ReservedAt: at, Traceparent: f[4],
	}, nil
}
