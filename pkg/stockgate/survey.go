package stockgate

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

// Revision identifies a build of a gate and the number of corrections made to its counters since.
type Revision struct {
	Build       string // token of the build that made the gate
	Corrections int64  // how often Correct changed its counters
}

func decodeCount(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stockgate: counter %q", s)
	}
	return n, nil
}

// StoredEntry is an entry as whoever compares it with the ledger sees it.
type StoredEntry struct {
	Entry
	Stored        string // as it is stored; Repair changes it only while it is that
	Journaled     bool   // queued, and its journal entry was not acked
	IndexMismatch bool   // buyer's record or indexes do not fit it; RebuildBuyer puts that right
}

// Survey is Entries for comparing a gate with the ledger: one entry that cannot be read does not hide the others, and
// what is kept about each entry is compared with it. One script call, O(count); a Redis that keeps a small hash in one
// piece answers all of it.
// life tells one gate from another that was built in its place.
func (g *Gate) Survey(ctx context.Context, ref contract.GateRef, cursor uint64, count int) (entries []StoredEntry, build string, next uint64, err error) {
	return g.survey(ctx, ref, "page", cursor, min(max(count, 1), maxPage))
}

// Inspect is Survey of the purchases named. An order_sn that the gate does not know is absent from the map. Any number of
// order_sns, 256 to a script call, O(order_sns).
func (g *Gate) Inspect(ctx context.Context, ref contract.GateRef, orderSNs []string) (map[string]StoredEntry, error) {
	found := make(map[string]StoredEntry, len(orderSNs))
	for batch := range slices.Chunk(orderSNs, batchSize) {
		args, err := idArgs(batch)
		if err != nil {
			return nil, err
		}
		entries, _, _, err := g.survey(ctx, ref, append([]any{"some"}, args...)...)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			found[e.OrderSN] = e
		}
	}
	return found, nil
}

func (g *Gate) survey(ctx context.Context, ref contract.GateRef, args ...any) (entries []StoredEntry, build string, next uint64, err error) {
	reply, err := g.runStrings(ctx, scriptSurvey, ref, args...)
	if err != nil {
		return nil, "", 0, err
	}
	if len(reply) < 2 || len(reply)%3 != 2 {
		return nil, "", 0, fmt.Errorf("stockgate: survey answered %d values", len(reply))
	}
	if next, err = strconv.ParseUint(reply[1], 10, 64); err != nil {
		return nil, "", 0, fmt.Errorf("stockgate: cursor %q", reply[1])
	}
	for triple := range slices.Chunk(reply[2:], 3) {
		s := newStoredEntry(triple[0], triple[1])
		s.IndexMismatch = triple[2] != "1"
		entries = append(entries, s)
	}
	return entries, reply[0], next, nil
}

func newStoredEntry(orderSN, stored string) StoredEntry {
	e := readEntry(orderSN, stored)
	return StoredEntry{Entry: e, Stored: stored, Journaled: e.Status == StatusQueued && !e.Landed && journalID(stored) != ""}
}

// trackingTime bounds how long it may take to read all entries.
const trackingTime = 2 * time.Minute

// TrackChanges has the gate note which entries change from now on, for one who is about to read all of them by Survey and ends that
// with CollectChanges. It ends the watch of anybody else. One script call, O(1).
func (g *Gate) TrackChanges(ctx context.Context, ref contract.GateRef) (token string, err error) {
	token = rand.Text()
	_, err = g.run(ctx, scriptTrackChanges, ref, token, trackingTime.Milliseconds())
	return token, err
}

// CollectChanges ends a watch: the counters, and the entries that changed since, at one moment. Whatever was read after TrackChanges and is
// not among these is as it was read. One that is not there any more has no Stored. ErrSuperseded: the watch came to nothing,
// because another one was set, it took longer than two minutes, or more than 2000 purchases changed. One script call,
// O(entries that changed).
func (g *Gate) CollectChanges(ctx context.Context, ref contract.GateRef, token string) (Audit, []StoredEntry, error) {
	reply, err := g.run(ctx, scriptCollectChanges, ref, token)
	if err == nil && reply == "superseded" {
		err = ErrSuperseded
	}
	if err != nil {
		return Audit{}, nil, err
	}
	values, err := texts(scriptCollectChanges, reply)
	if err != nil {
		return Audit{}, nil, err
	}
	n := 0
	if len(values) > 0 {
		n, err = strconv.Atoi(values[0])
	}
	if err != nil || n < 2 || n%2 != 0 || len(values) < n+1 || (len(values)-n-1)%2 != 0 {
		return Audit{}, nil, fmt.Errorf("stockgate: collect_changes returned %d values", len(values))
	}
	a := Audit{SKUs: map[string]Counts{}}
	if err := a.decode(values[1 : n+1]); err != nil {
		return Audit{}, nil, err
	}
	var touched []StoredEntry
	for pair := range slices.Chunk(values[n+1:], 2) {
		if pair[1] == "" {
			touched = append(touched, StoredEntry{Entry: Entry{OrderSN: pair[0]}})
			continue
		}
		touched = append(touched, newStoredEntry(pair[0], pair[1]))
	}
	return a, touched, nil
}

// MismatchedBuyers pages through the buyers' records and tells whose do not fit the entries they list. Begin with cursor 0
// and go on until it is 0 again. One script call, O(count).
func (g *Gate) MismatchedBuyers(ctx context.Context, ref contract.GateRef, cursor uint64, count int) (users []string, next uint64, err error) {
	reply, err := g.runStrings(ctx, scriptMismatchedBuyers, ref, cursor, min(max(count, 1), maxPage))
	if err != nil {
		return nil, 0, err
	}
	if len(reply) == 0 {
		return nil, 0, fmt.Errorf("stockgate: buyers answered nothing")
	}
	if next, err = strconv.ParseUint(reply[0], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("stockgate: cursor %q", reply[0])
	}
	return reply[1:], next, nil
}
