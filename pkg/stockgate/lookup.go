package stockgate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

// Lookup returns the entries of the given order_sns. An order_sn that the gate does not have is absent from the map; an
// entry that cannot be decoded is marked Broken. It takes any number of order_sns, 256 to a script call, O(order_sns).
func (g *Gate) Lookup(ctx context.Context, activityID string, orderSNs []string) (map[string]Entry, error) {
	found := make(map[string]Entry, len(orderSNs))
	for batch := range slices.Chunk(orderSNs, batchSize) {
		args, err := idArgs(batch)
		if err != nil {
			return nil, err
		}
		reply, err := g.runStrings(ctx, scriptLookup, activityID, args...)
		if err != nil {
			return nil, err
		}
		if err := decodePairs(reply, func(e Entry) { found[e.OrderSN] = e }); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// BuyerPurchases is what a gate has of one buyer.
type BuyerPurchases struct {
	// OrderSNs are all that hold units, and at most 16 that ended within the last 24 h, in the order in which they were
	// issued.
	OrderSNs []string
	// CancellationsLeft is how many orders may still be cancelled or expire before the allowance is over for a while; nil
	// means any number.
	CancellationsLeft *int64
	BarredUntil       time.Time // as in Verdict
}

// Purchases returns the purchases of a buyer, and what is left of the allowance. One script call, O(purchases of the
// buyer).
func (g *Gate) Purchases(ctx context.Context, activityID, userID string) (b BuyerPurchases, err error) {
	if !contract.ValidUserID(userID) {
		return b, fmt.Errorf("stockgate: user id is malformed")
	}
	reply, err := g.runStrings(ctx, scriptPurchases, activityID, userID)
	if err != nil {
		return b, err
	}
	if len(reply) < 2 {
		return b, fmt.Errorf("stockgate: purchases returned %d values", len(reply))
	}
	if reply[0] != "" {
		left, err := strconv.ParseInt(reply[0], 10, 64)
		if err != nil {
			return b, fmt.Errorf("stockgate: cancellations left: %w", err)
		}
		b.CancellationsLeft = &left
	}
	if b.BarredUntil, err = decodeTime(reply[1]); err != nil {
		return b, err
	}
	b.OrderSNs = reply[2:]
	slices.SortFunc(b.OrderSNs, compareIDs)
	return b, nil
}

// Unlanded returns purchases that are not known to be in the ledger and were last journaled in [from, before), oldest
// first. A zero from means no lower bound. It returns at most limit entries and at most 1000; the next page starts at
// the last JournaledAt. One script call, O(log n + limit).
func (g *Gate) Unlanded(ctx context.Context, activityID string, from, before time.Time, limit int) ([]Entry, error) {
	if limit < 1 {
		return nil, nil
	}
	first := cmp.Or(encodeTime(from), "-inf")
	reply, err := g.runStrings(ctx, scriptUnlanded, activityID, first, before.UnixMilli(), min(limit, maxPage))
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for triple := range slices.Chunk(reply, 3) {
		if len(triple) != 3 {
			return nil, fmt.Errorf("stockgate: unlanded returned %d values", len(reply))
		}
		e := readEntry(triple[0], triple[1])
		if e.JournaledAt, err = decodeTime(triple[2]); err != nil {
			return nil, fmt.Errorf("order_sn %s: %w", triple[0], err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// maxPage bounds the entries that one call returns.
const maxPage = 1000

// Entries reads one page of all entries of a gate, in no particular order. It starts with cursor 0 and is complete once
// next is 0. Entries that exist throughout are returned at least once, some twice; entries that are added or removed
// meanwhile may be missing. One script call, O(count).
func (g *Gate) Entries(ctx context.Context, activityID string, cursor uint64, count int) (
	entries []Entry, next uint64, err error,
) {
	reply, err := g.runStrings(ctx, scriptScan, activityID, cursor, min(max(count, 1), maxPage))
	if err != nil {
		return nil, 0, err
	}
	if len(reply) == 0 {
		return nil, 0, fmt.Errorf("stockgate: scan returned no cursor")
	}
	if _, err := fmt.Sscan(reply[0], &next); err != nil {
		return nil, 0, fmt.Errorf("stockgate: cursor %q", reply[0])
	}
	err = decodePairs(reply[1:], func(e Entry) { entries = append(entries, e) })
	return entries, next, err
}

// decodePairs decodes alternating order_sns and stored entries.
func decodePairs(reply []string, each func(Entry)) error {
	for pair := range slices.Chunk(reply, 2) {
		if len(pair) != 2 {
			return fmt.Errorf("stockgate: order_sn without an entry in the reply")
		}
		each(readEntry(pair[0], pair[1]))
	}
	return nil
}

func idArgs(orderSNs []string) ([]any, error) {
	args := make([]any, len(orderSNs))
	for i, sn := range orderSNs {
		if !contract.ValidID(sn) {
			return nil, fmt.Errorf("stockgate: order_sn %q is malformed", sn)
		}
		args[i] = sn
	}
	return args, nil
}
