package stockgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"flashsale.internal/pkg/contract"
)

// Repair replaces one entry by the state that the ledger has.
type Repair struct {
	OrderSN string
	Seen    string // StoredEntry.Stored as the caller read it; "" for an order_sn that the gate does not have
	Remove  bool   // delete an entry that cannot be decoded and is not in the ledger; no units are restored
	To      Entry  // UserID, Lines, Status, Landed, Reason, ExpiresAt; a terminal one gets the present time as its end
}

// Repair sets entries to the state of the ledger, whatever their status. It changes an entry only if it still is, byte
// for byte, as the caller has seen it. The counters change by the difference between the old and the new entry, so an
// error that they already have stays; Correct repairs that. It returns for each order_sn whether its entry was
// changed, and fails with ErrSuperseded if the gate is not of the given build. It takes any number of items, 256 to a
// script call. After an error some items may be repaired, and the whole call may be repeated. O(items).
func (g *Gate) Repair(ctx context.Context, activityID, build string, items []Repair) (
	map[string]bool, error,
) {
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
		reply, err := g.run(ctx, scriptRepair, activityID, args...)
		if err == nil && reply == "superseded" {
			err = ErrSuperseded
		}
		if err != nil {
			return done, err
		}
		list, ok := reply.([]any)
		if !ok || len(list) != len(batch) {
			return done, fmt.Errorf("stockgate: repair returned %v", reply)
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

// RebuildBuyer rebuilds the record of a buyer from the entries that the record lists and those named, and puts these
// entries into the right index. It uses the entries as they are at that moment. changed reports whether anything was
// wrong. One script call, O(purchases of the buyer).
func (g *Gate) RebuildBuyer(ctx context.Context, activityID, userID string, orderSNs []string) (
	changed bool, err error,
) {
	args, err := idArgs(orderSNs)
	if err != nil {
		return false, err
	}
	reply, err := g.run(ctx, scriptRebuildBuyer, activityID, append([]any{userID}, args...)...)
	return reply == "1", err
}

// Correction is what Correct adds to the counters of one SKU, in units. Negative numbers subtract.
type Correction struct {
	SKUID            string
	Left, Held, Sold int64
	Total            int64
	Unlanded         int64 // part of Held: not known to be in the ledger
}

// Correct adds the corrections to the counters of the SKUs, and held to the number of units held in the whole gate.
// seen is the revision of the gate at which the caller computed them; if the gate was rebuilt or corrected since,
// Correct changes nothing and fails with ErrSuperseded. So a late or repeated attempt has no effect.
//
// The error of a counter is the same before and after every other script, because scripts only add. Purchases that
// change meanwhile therefore do not matter, and nothing is overwritten. A correction creates counters that are
// missing, also a correction by 0. One script call, O(SKUs).
func (g *Gate) Correct(ctx context.Context, activityID string, seen Revision, held int64, list []Correction) error {
	args := []any{seen.Build, strconv.FormatInt(seen.Corrections, 10)}
	add := func(field string, n int64) { args = append(args, field, strconv.FormatInt(n, 10)) }
	if held != 0 {
		add("held", held)
	}
	for _, c := range list {
		if !contract.ValidID(c.SKUID) {
			return fmt.Errorf("stockgate: sku id %q is malformed", c.SKUID)
		}
		for field, n := range map[string]int64{
			"s:": c.Left, "h:": c.Held, "p:": c.Sold, "t:": c.Total, "u:": c.Unlanded,
		} {
			add(field+c.SKUID, n)
		}
	}
	if len(args) == 2 {
		return errors.New("stockgate: empty correction")
	}
	reply, err := g.run(ctx, scriptCorrect, activityID, args...)
	if err == nil && reply == "superseded" {
		err = ErrSuperseded
	}
	return err
}

// OverrideConfig sets the configuration of a gate that has a later version than c, provided that its version still is
// seenVersion; else it fails with ErrStaleVersion. It repairs a damaged version. One script call, O(1).
func (g *Gate) OverrideConfig(ctx context.Context, activityID string, seenVersion int64, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	_, err := g.run(ctx, scriptConfigure, activityID, append(c.args(), strconv.FormatInt(seenVersion, 10))...)
	return err
}
