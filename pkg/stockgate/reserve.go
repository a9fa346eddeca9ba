package stockgate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// MaxGroup bounds the requests of one Reserve.
const MaxGroup = 128

// Request is the request of a buyer to reserve units.
type Request struct {
	OrderSN     string
	UserID      string
	Lines       []Line
	IssuedAt    time.Time // of the path, by Redis time; zero when unknown, and then the path is never void
	Traceparent string    // empty when the purchase is not sampled; a malformed one is not stored
}

// Outcome is the decision of the gate on a request.
type Outcome int

// The outcomes of a request, in the order in which Reserve checks for them; Importing comes after Conflict, and Accepted
// is what remains.
const (
	Known        Outcome = iota + 1 // the gate has this order_sn, with the same buyer and lines: see Entry
	Conflict                        // the gate has this order_sn with another buyer or other lines
	Paused                          // the merchant has paused the sale
	Ended                           // the merchant has ended the sale, or its window has ended
	NotStarted                      // see StartsAt
	LimitReached                    // the buyer would hold more units than the limit, or is barred: see OrderSNs, BarredUntil
	PathVoid                        // the buyer has reserved since the path was issued
	UnknownSKU                      // a line names a SKU that is not sold here
	SoldOut                         // fewer units are left than a line requests: see MayReturnUntil
	JournalFull                     // there is stock, but too many reservations wait for their publication, or memory is short
	Unconfirmed                     // accepted or known, but too few replicas have it yet: repeat the request
	Importing                       // the gate takes no new purchases until inventory has imported what a restore lost
	Accepted                        // the units are taken and the reservation is journaled: see Entry
)

// String returns the name of the outcome, as metrics and logs use it.
func (o Outcome) String() string {
	if o < Known || o > Accepted {
		return fmt.Sprintf("outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

var outcomeNames = [...]string{
	"", "known", "conflict", "paused", "ended", "not_started", "limit_reached", "path_void", "unknown_sku",
	"sold_out", "journal_full", "unconfirmed", "importing", "accepted",
}

var outcomeByName = func() map[string]Outcome {
	all := make(map[string]Outcome, len(outcomeNames))
	for o := Known; o <= Accepted; o++ {
		all[outcomeNames[o]] = o
	}
	return all
}()

// Verdict is the decision on one Request, with the details of its outcome.
type Verdict struct {
	Outcome  Outcome
	Entry    Entry    // of Accepted and Known; a Known one may be Broken
	OrderSNs []string // of LimitReached: the purchases that hold the buyer's units, latest last
	// BarredUntil is, for LimitReached, the time until which the buyer's allowance is over, because more orders than
	// Config.ReorderLimit were cancelled or expired. It is zero if the buyer holds too many units.
	BarredUntil time.Time
	StartsAt    time.Time // of NotStarted
	// MayReturnUntil is, for SoldOut, the time until which unpaid units may become available again. It is the
	// earliest, over the SKUs that are short, of the latest known pay deadlines; the end of the sale where no deadline
	// is known. It is zero when no unpaid units exist.
	MayReturnUntil time.Time
}

// Reserve decides a group of at most MaxGroup requests in one script call, each by itself and in their order. Verdicts
// have the order of the requests. Each request passes these checks: whether the order_sn is known, whether an import
// after a restore runs, whether the sale is open, whether the buyer has allowance left and has not reserved since the
// path was issued, whether there is stock, and whether the journal has room. If it passes all, the script journals the reservation and takes the units. The journal
// has no room either while the Redis master is short of memory, see MeasureMemory.
//
// A known order_sn always gets its present state, also after the end of the sale, and takes nothing: if the reply
// Accepted was lost, the repeated request gets Known. A malformed request fails the whole call before Redis is called.
// With Options.WaitReplicas, a purchase whose entry a failover could still lose gets Unconfirmed. O(requests).
func (g *Gate) Reserve(ctx context.Context, activityID string, requests []Request) ([]Verdict, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	if len(requests) > MaxGroup {
		return nil, fmt.Errorf("stockgate: %d requests in one group, at most %d are allowed", len(requests), MaxGroup)
	}
	args := make([]any, 0, 1+5*len(requests))
	args = append(args, g.journalMax(ctx, activityID))
	for _, r := range requests {
		if err := validatePurchase(r.OrderSN, r.UserID, r.Lines); err != nil {
			return nil, err
		}
		args = append(args, r.OrderSN, r.UserID, encodeLines(r.Lines), storableTraceparent(r.Traceparent),
			encodeTime(r.IssuedAt))
	}
	raw, confirmed, err := g.runAndWait(ctx, scriptReserve, activityID, args...)
	if outOfMemory(err) { // it wrote nothing: the first write was refused
		g.full.Store(g.masterOf(ctx, activityID), true)
		args[0] = g.journalMax(ctx, activityID)
		raw, confirmed, err = g.runAndWait(ctx, scriptReserve, activityID, args...)
	}
	if err != nil {
		return nil, err
	}
	reply, err := stringList(scriptReserve, raw)
	if err != nil {
		return nil, err
	}
	if len(reply) != len(requests) {
		return nil, fmt.Errorf("stockgate: %d verdicts for %d requests", len(reply), len(requests))
	}
	verdicts := make([]Verdict, len(requests))
	for i, r := range requests {
		if verdicts[i], err = decodeVerdict(r, reply[i]); err != nil {
			return nil, err
		}
	}
	if !g.WaitsForReplicas() {
		return verdicts, nil
	}
	return verdicts, g.confirmVerdicts(ctx, activityID, requests, verdicts, confirmed)
}

// confirmVerdicts replaces Accepted, and Known of a queued purchase, by Unconfirmed where too few replicas have the
// purchase. confirmed is whether they have what this call wrote; what it found was written before, and is included if
// this call wrote anything. If it wrote nothing, another call confirms what it found; that call may reach another
// master, so its entries replace those of this one.
func (g *Gate) confirmVerdicts(
	ctx context.Context, activityID string, requests []Request, verdicts []Verdict, confirmed bool,
) error {
	var known []string
	wrote := false
	for i, v := range verdicts {
		wrote = wrote || v.Outcome == Accepted
		if v.Outcome == Known && v.mayBeLost() {
			known = append(known, requests[i].OrderSN)
		}
	}
	var found map[string]Entry
	if !wrote && len(known) > 0 {
		var err error
		if found, err = g.Confirm(ctx, activityID, known); err != nil && !errors.Is(err, ErrUnavailable) {
			return err
		}
	}
	for i, v := range verdicts {
		if !v.mayBeLost() || wrote && confirmed {
			continue
		}
		verdicts[i] = Verdict{Outcome: Unconfirmed, Entry: v.Entry}
		r := requests[i]
		if e, ok := found[r.OrderSN]; ok {
			verdicts[i] = Verdict{Outcome: Known, Entry: e}
			if !e.Broken && (e.UserID != r.UserID || !contract.SameLines(e.Lines, r.Lines)) {
				verdicts[i] = Verdict{Outcome: Conflict}
			}
		}
	}
	return nil
}

// mayBeLost reports whether the verdict is about a purchase that only the gate has.
func (v Verdict) mayBeLost() bool {
	return (v.Outcome == Accepted || v.Outcome == Known) && v.Entry.Status == StatusQueued && !v.Entry.Landed
}

// journalMax is the length from which the gate's journal is full.
func (g *Gate) journalMax(ctx context.Context, activityID string) int64 {
	if g.isFull(ctx, activityID) {
		return 0
	}
	return g.opts.JournalMax
}

// decodeVerdict decodes "outcome;payload".
func decodeVerdict(r Request, reply string) (v Verdict, err error) {
	name, payload, _ := strings.Cut(reply, ";")
	v.Outcome = outcomeByName[name]
	switch v.Outcome {
	case Accepted:
		v.Entry = Entry{
			OrderSN: r.OrderSN, UserID: r.UserID, Lines: sortLines(r.Lines), Status: StatusQueued,
			Traceparent: storableTraceparent(r.Traceparent),
		}
		v.Entry.ReservedAt, err = decodeTime(payload)
	case Known:
		v.Entry = readEntry(r.OrderSN, payload)
	case LimitReached:
		v.OrderSNs, v.BarredUntil, err = decodeLimitReached(payload)
	case NotStarted:
		v.StartsAt, err = decodeTime(payload)
	case SoldOut:
		v.MayReturnUntil, err = decodeTime(payload)
	case Conflict, Paused, Ended, PathVoid, UnknownSKU, JournalFull, Importing:
	default:
		err = fmt.Errorf("stockgate: verdict %q is unknown", name)
	}
	return v, err
}

// decodeLimitReached decodes "order_sns|ms".
func decodeLimitReached(payload string) (orderSNs []string, barred time.Time, err error) {
	held, until, _ := strings.Cut(payload, "|")
	barred, err = decodeTime(until)
	return splitIDs(held), barred, err
}

func splitIDs(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
