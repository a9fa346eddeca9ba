package stockgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"flashsale.internal/pkg/contract"
)

// Repair is what an entry has to be.
type Repair struct {
	OrderSN string
	Seen    string // as Survey told it; "" for an order_sn that the gate does not know
	Remove  bool   // an entry that nobody can read and the ledger does not have; gives nothing back
	To      Entry  // UserID, Lines, Status, Landed, Reason, ExpiresAt; a terminal one ends now
}

// Repair makes entries what the ledger says, whatever they were, each only if it still is as it was seen. What an entry
// took is given back and what the new one takes is taken, so the counters stay what they are off by. It tells of which
// order_sns the entry was changed. ErrSuperseded: this is another life of the gate. Any number of items, 256 to a script
// call; after an error some may be repaired, and the whole call may be repeated. O(items).
func (g *Gate) Repair(ctx context.Context, ref contract.GateRef, build string, items []Repair) (map[string]bool, error) {
	done := make(map[string]bool, len(items))
	for batch := range slices.Chunk(items, batchSize) {
		args := []any{build}
		for _, r := range batch {
			fields, err := r.args()
			if err != nil {
				return done, err
			}
			args = append(args, fields...)
		}
		reply, err := g.run(ctx, scriptRepair, ref, args...)
		if err == nil && reply == "superseded" {
			err = ErrSuperseded
		}
		if err != nil {
			return done, err
		}
		list, ok := reply.([]any)
		if !ok || len(list) != len(batch) {
			return done, fmt.Errorf("stockgate: repair answered %v", reply)
		}
		for i, v := range list {
			done[batch[i].OrderSN] = v == "1"
		}
	}
	return done, nil
}

func (r Repair) args() ([]any, error) {
	if !contract.ValidID(r.OrderSN) {
		return nil, fmt.Errorf("stockgate: order_sn %q is malformed", r.OrderSN)
	}
	if r.Remove {
		return []any{r.OrderSN, r.Seen, "-", "", "", "", ""}, nil
	}
	if err := validatePurchase(r.OrderSN, r.To.UserID, r.To.Lines); err != nil {
		return nil, err
	}
	stage, err := r.To.stage()
	if err != nil {
		return nil, err
	}
	reason, expires := "", ""
	if r.To.terminal() {
		if reason = r.To.Reason; validateReason(r.OrderSN, reason) != nil {
			return nil, validateReason(r.OrderSN, reason)
		}
	}
	if r.To.Status == StatusCreated {
		expires = encodeTime(r.To.ExpiresAt)
	}
	return []any{r.OrderSN, r.Seen, stage, r.To.UserID, encodeLines(r.To.Lines), reason, expires}, nil
}

// RebuildBuyer makes the record of a buyer anew from the entries that it lists and those named, and puts these into the right
// index. It decides by what the entries are at that moment. changed tells whether there was anything to mend. One script
// call, O(purchases of the buyer).
func (g *Gate) RebuildBuyer(ctx context.Context, ref contract.GateRef, userID string, orderSNs []string) (changed bool, err error) {
	args, err := idArgs(orderSNs)
	if err != nil {
		return false, err
	}
	reply, err := g.run(ctx, scriptRebuildBuyer, ref, append([]any{userID}, args...)...)
	return reply == "1", err
}

// Correction is what the counters of a SKU lack, in pieces; negative when they tell too much.
type Correction struct {
	SKUID             string
	Left, Held, Sold  int64
	Total             int64
	Unlanded, Journal int64 // of Held: not known to be in the ledger; of those: in the journal
}

// Correct adds to counters what they lack, and to the number of pieces held in all. seen is the gate when it was found
// out; ErrSuperseded: it was built anew or corrected since. What a counter lacks is the same before and after every other
// script, so purchases that change meanwhile do not matter, and nothing is overwritten. An attempt that arrives late or
// again does nothing. Counters of the SKUs that are missing are made, also by a correction of 0. One script call, O(SKUs).
func (g *Gate) Correct(ctx context.Context, ref contract.GateRef, seen Revision, held int64, list []Correction) error {
	args := []any{seen.Build, strconv.FormatInt(seen.Corrections, 10)}
	add := func(field string, n int64) { args = append(args, field, strconv.FormatInt(n, 10)) }
	if held != 0 {
		add("held", held)
	}
	for _, c := range list {
		if !contract.ValidID(c.SKUID) {
			return fmt.Errorf("stockgate: sku id %q is malformed", c.SKUID)
		}
		for field, n := range map[string]int64{"s:": c.Left, "h:": c.Held, "p:": c.Sold, "t:": c.Total, "u:": c.Unlanded, "j:": c.Journal} {
			add(field+c.SKUID, n)
		}
	}
	if len(args) == 2 {
		return errors.New("stockgate: a correction of nothing")
	}
	reply, err := g.run(ctx, scriptCorrect, ref, args...)
	if err == nil && reply == "superseded" {
		err = ErrSuperseded
	}
	return err
}

// OverrideConfig sets a gate's configuration although it claims a later version, if that still is the version seen.
func (g *Gate) OverrideConfig(ctx context.Context, ref contract.GateRef, seenVersion int64, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	_, err := g.run(ctx, scriptConfigure, ref, append(c.args(), strconv.FormatInt(seenVersion, 10))...)
	return err
}
