package stockgate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// MaxGroup bounds the requests of one Reserve.
const MaxGroup = 128

// Request is one buyer's wish.
type Request struct {
	OrderSN     string
	UserID      string
	Lines       []Line
	Traceparent string // empty when the purchase is not sampled; a malformed one is dropped
}

// Outcome is what the gate decided.
type Outcome int

// The outcomes of a request, in the order in which they are looked for; Accepted is what remains.
const (
	Known        Outcome = iota + 1 // this order_sn is here already, for the same buyer and lines: see Entry
	Conflict                        // this order_sn is here already, for another buyer or other lines
	Paused                          // the merchant has paused the sale
	Ended                           // the merchant has ended the sale, or its window is over
	NotStarted                      // see StartsAt
	LimitReached                    // the buyer would hold more than the limit: see OrderSNs
	UnknownSKU                      // a line names a SKU that is not sold here
	SoldOut                         // fewer pieces are left than a line asks for: see MayReturnUntil
	JournalFull                     // there is stock, but too much is waiting to be published
	Accepted                        // the pieces are taken and the reservation is journaled: see Entry
)

// String names the outcome as metrics and logs do.
func (o Outcome) String() string {
	if o < Known || o > Accepted {
		return fmt.Sprintf("outcome(%d)", int(o))
	}
	return outcomeNames[o]
}

var outcomeNames = [...]string{
	"", "known", "conflict", "paused", "ended", "not_started", "limit_reached", "unknown_sku",
	"sold_out", "journal_full", "accepted",
}

var outcomeByName = func() map[string]Outcome {
	all := make(map[string]Outcome, len(outcomeNames))
	for o := Known; o <= Accepted; o++ {
		all[outcomeNames[o]] = o
	}
	return all
}()

// Verdict is the answer to one Request.
type Verdict struct {
	Outcome  Outcome
	Entry    Entry     // of Accepted and Known; a Known one may be Broken
	OrderSNs []string  // of LimitReached: what the buyer holds, latest last
	StartsAt time.Time // of NotStarted
	// MayReturnUntil is until when unpaid pieces of what is sold out may come back: of the SKUs that are short, the
	// earliest of the latest known deadlines; the end of the sale where none is known. Zero when nothing unpaid exists.
	MayReturnUntil time.Time
}

// Reserve decides a group of at most MaxGroup requests, each by itself and in their order, in one script call; the
// verdicts stand in the order of the requests. For each: is the order_sn known? may one buy now? has the buyer allowance
// left? is there stock? is there room in the journal? Then it journals the reservation and takes the pieces.
//
// A known order_sn always gets its present state, after the end of the sale as well, and takes nothing: a repeated request
// gets Known where the lost answer was Accepted. Malformed requests fail the whole call before Redis is asked.
// O(requests).
func (g *Gate) Reserve(ctx context.Context, ref contract.GateRef, requests []Request) ([]Verdict, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	if len(requests) > MaxGroup {
		return nil, fmt.Errorf("stockgate: %d requests in one group, at most %d are allowed", len(requests), MaxGroup)
	}
	args := make([]any, 0, 1+4*len(requests))
	args = append(args, g.opts.JournalMax)
	for _, r := range requests {
		if err := validatePurchase(r.OrderSN, r.UserID, r.Lines); err != nil {
			return nil, err
		}
		args = append(args, r.OrderSN, r.UserID, encodeLines(r.Lines), storableTraceparent(r.Traceparent))
	}
	reply, err := g.runStrings(ctx, scriptReserve, ref, args...)
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
	return verdicts, nil
}

// decodeVerdict reads "outcome;payload".
func decodeVerdict(r Request, answer string) (v Verdict, err error) {
	name, payload, _ := strings.Cut(answer, ";")
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
		v.OrderSNs = splitIDs(payload)
	case NotStarted:
		v.StartsAt, err = decodeTime(payload)
	case SoldOut:
		v.MayReturnUntil, err = decodeTime(payload)
	case Conflict, Paused, Ended, UnknownSKU, JournalFull:
	default:
		err = fmt.Errorf("stockgate: verdict %q is unknown", name)
	}
	return v, err
}

func splitIDs(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
