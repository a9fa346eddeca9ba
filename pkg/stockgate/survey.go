package stockgate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// Mark tells one moment of a gate from another. Between two equal marks no purchase changed.
type Mark struct {
	Life    string // of the build that made the gate
	Moves   int64  // how often purchases took pieces, gave them back, or came to hold others
	Steps   int64  // how often they changed otherwise
	Repairs int64  // how often counters were corrected
}

func decodeMark(life, moves, steps, repairs string) (m Mark, err error) {
	m.Life = life
	for _, f := range []struct {
		text string
		dst  *int64
	}{{moves, &m.Moves}, {steps, &m.Steps}, {repairs, &m.Repairs}} {
		if *f.dst, err = decodeCount(f.text); err != nil {
			return Mark{}, err
		}
	}
	return m, nil
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

// Surveyed is an entry as whoever compares it with the ledger sees it.
type Surveyed struct {
	Entry
	Stored    string // as it is stored; Repair changes it only while it is that
	Broken    bool   // it cannot be read: nothing of Entry but OrderSN is set
	Journaled bool   // queued, and its journal entry was not acked
	Misfiled  bool   // buyer's record or indexes do not fit it; Mend puts that right
}

// Survey is Entries for comparing a gate with the ledger: one entry that cannot be read does not hide the others, and
// what is kept about each entry is compared with it. One script call, O(count); a Redis that keeps a small hash in one
// piece answers all of it.
func (g *Gate) Survey(ctx context.Context, ref Ref, cursor uint64, count int) (entries []Surveyed, mark Mark, next uint64, err error) {
	return g.survey(ctx, ref, "page", cursor, min(max(count, 1), maxPage))
}

// Inspect is Survey of the purchases named. An order_sn that the gate does not know is absent from the map. Any number of
// order_sns, 256 to a script call, O(order_sns).
func (g *Gate) Inspect(ctx context.Context, ref Ref, orderSNs []string) (map[string]Surveyed, error) {
	found := make(map[string]Surveyed, len(orderSNs))
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

func (g *Gate) survey(ctx context.Context, ref Ref, args ...any) (entries []Surveyed, mark Mark, next uint64, err error) {
	reply, err := g.runStrings(ctx, scriptSurvey, ref, args...)
	if err != nil {
		return nil, Mark{}, 0, err
	}
	if len(reply) < 5 || len(reply)%3 != 2 {
		return nil, Mark{}, 0, fmt.Errorf("stockgate: survey answered %d values", len(reply))
	}
	if mark, err = decodeMark(reply[0], reply[1], reply[2], reply[3]); err != nil {
		return nil, Mark{}, 0, err
	}
	if next, err = strconv.ParseUint(reply[4], 10, 64); err != nil {
		return nil, Mark{}, 0, fmt.Errorf("stockgate: cursor %q", reply[4])
	}
	for triple := range slices.Chunk(reply[5:], 3) {
		e, err := decodeEntry(triple[0], triple[1])
		s := Surveyed{Entry: e, Stored: triple[1], Misfiled: triple[2] != "1"}
		if err != nil {
			s.Entry, s.Broken = Entry{OrderSN: triple[0]}, true
		}
		s.Journaled = e.Status == StatusQueued && !e.Landed && journalID(triple[1]) != ""
		entries = append(entries, s)
	}
	return entries, mark, next, nil
}

// MisfiledBuyers pages through the buyers' records and tells whose do not fit the entries they list. Begin with cursor 0
// and go on until it is 0 again. One script call, O(count).
func (g *Gate) MisfiledBuyers(ctx context.Context, ref Ref, cursor uint64, count int) (users []string, next uint64, err error) {
	reply, err := g.runStrings(ctx, scriptBuyers, ref, cursor, min(max(count, 1), maxPage))
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
