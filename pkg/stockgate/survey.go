package stockgate

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Revision identifies a build of a gate and the number of corrections made to its counters since.
type Revision struct {
	Build       string // token of the build that made the gate
	Corrections int64  // calls of Correct that changed its counters
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

// StoredEntry is an entry together with its stored form. The reconciler compares it with the ledger.
type StoredEntry struct {
	Entry
	Stored        string // the stored form, "" if the gate has no such entry; Repair compares it before a change
	IndexMismatch bool   // the record of its buyer or an index contradicts it; RebuildBuyer repairs that
}

// Survey reads one page of all entries in their stored form, and checks each against the record of its buyer and the
// indexes. It starts with cursor 0 and is complete once next is 0, like Entries. build is the token of the gate's
// build; another value on a later page means that the gate was rebuilt in between. One script call, O(count); Redis
// returns a small hash in one page whatever the count.
func (g *Gate) Survey(ctx context.Context, activityID string, cursor uint64, count int) (
	entries []StoredEntry, build string, next uint64, err error,
) {
	return g.survey(ctx, activityID, "page", cursor, min(max(count, 1), maxPage))
}

// Inspect reads the entries of the given order_sns as Survey does. An order_sn that the gate does not have is absent
// from the map. It takes any number of order_sns, 256 to a script call, O(order_sns).
func (g *Gate) Inspect(ctx context.Context, activityID string, orderSNs []string) (map[string]StoredEntry, error) {
	found := make(map[string]StoredEntry, len(orderSNs))
	for batch := range slices.Chunk(orderSNs, batchSize) {
		args, err := idArgs(batch)
		if err != nil {
			return nil, err
		}
		entries, _, _, err := g.survey(ctx, activityID, append([]any{"some"}, args...)...)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			found[e.OrderSN] = e
		}
	}
	return found, nil
}

func (g *Gate) survey(ctx context.Context, activityID string, args ...any) (
	entries []StoredEntry, build string, next uint64, err error,
) {
	reply, err := g.runStrings(ctx, scriptSurvey, activityID, args...)
	if err != nil {
		return nil, "", 0, err
	}
	if len(reply) < 2 || len(reply)%3 != 2 {
		return nil, "", 0, fmt.Errorf("stockgate: survey returned %d values", len(reply))
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
	return StoredEntry{Entry: readEntry(orderSN, stored), Stored: stored}
}

// trackingTime bounds the time between TrackChanges and CollectChanges.
const trackingTime = 2 * time.Minute

// TrackChanges makes the gate record which entries change from now on. A caller that reads all entries with Survey
// calls it first, and CollectChanges at the end with the returned token. It ends the tracking of any other caller. One
// script call, O(1).
func (g *Gate) TrackChanges(ctx context.Context, activityID string) (token string, err error) {
	token = rand.Text()
	_, err = g.run(ctx, scriptTrackChanges, activityID, token, trackingTime.Milliseconds())
	return token, err
}

// CollectChanges ends the tracking and returns the counters and the entries that changed since TrackChanges, all of one
// moment. Entries that were read since and are not among those returned have not changed. A removed entry has an empty
// Stored. It fails with ErrSuperseded if the tracking ended early: another caller started one, it took longer than two
// minutes, or more than 2000 entries changed. One script call, O(entries that changed).
func (g *Gate) CollectChanges(ctx context.Context, activityID, token string) (Audit, []StoredEntry, error) {
	reply, err := g.run(ctx, scriptCollectChanges, activityID, token)
	if err == nil && reply == "superseded" {
		err = ErrSuperseded
	}
	if err != nil {
		return Audit{}, nil, err
	}
	values, err := stringList(scriptCollectChanges, reply)
	if err != nil {
		return Audit{}, nil, err
	}
	a := Audit{SKUs: map[string]Counts{}}
	changed, err := a.decodeCounters(values)
	if err != nil {
		return Audit{}, nil, err
	}
	if len(changed)%2 != 0 {
		return Audit{}, nil, fmt.Errorf("stockgate: collect_changes returned %d values", len(values))
	}
	var touched []StoredEntry
	for pair := range slices.Chunk(changed, 2) {
		if pair[1] == "" {
			touched = append(touched, StoredEntry{Entry: Entry{OrderSN: pair[0]}})
			continue
		}
		touched = append(touched, newStoredEntry(pair[0], pair[1]))
	}
	return a, touched, nil
}

// MismatchedBuyers reads one page of the buyers' records and returns the users whose record does not match the entries
// that it lists. It starts with cursor 0 and is complete once next is 0. One script call, O(purchases of those buyers).
func (g *Gate) MismatchedBuyers(ctx context.Context, activityID string, cursor uint64, count int) (
	users []string, next uint64, err error,
) {
	reply, err := g.runStrings(ctx, scriptMismatchedBuyers, activityID, cursor, min(max(count, 1), maxPage))
	if err != nil {
		return nil, 0, err
	}
	if len(reply) == 0 {
		return nil, 0, fmt.Errorf("stockgate: mismatched_buyers returned no cursor")
	}
	if next, err = strconv.ParseUint(reply[0], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("stockgate: cursor %q", reply[0])
	}
	return reply[1:], next, nil
}
