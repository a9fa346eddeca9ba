package stockgate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
)

// A gate carries the epoch of inventory's database. After a restore of that database inventory draws another epoch.
// The gate then has purchases and adjustments that the database has lost. It refuses new purchases (MarkForImport)
// until inventory has imported what orders and gate have, and has renewed its epoch (RenewEpoch). All other calls work
// meanwhile.

// maxEpoch is the length of an epoch at most.
const maxEpoch = 64

func validateEpoch(epoch string) error {
	if !validToken(epoch, maxEpoch) {
		return fmt.Errorf("stockgate: epoch %q is malformed", epoch)
	}
	return nil
}

func importingField(importing bool) string {
	if importing {
		return "1"
	}
	return ""
}

// MarkForImport makes a gate of another epoch, or without one, refuse new purchases until RenewEpoch. A gate of this
// epoch stays as it is. It returns whether the gate refuses purchases. One script call, O(1).
func (g *Gate) MarkForImport(ctx context.Context, activityID, epoch string) (importing bool, err error) {
	if err := validateEpoch(epoch); err != nil {
		return false, err
	}
	n, err := g.runInt(ctx, scriptMarkEpoch, activityID, epoch)
	return n == 1, err
}

// Renewal is what the database has of an activity at one moment.
type Renewal struct {
	Config
	Totals   map[string]int64 // units in all, by SKU
	Adjusted []string         // ids of decided adjustments: contained in Totals, or never to be applied
}

// RenewEpoch ends the import into a gate: it sets configuration, totals and adjustments to those of the database, the
// units left to the totals less what the entries hold, and the epoch. Then the gate accepts purchases again. The caller
// has settled, released or dropped all entries by then, and holds the locks of the stock. A repeated call with the
// figures of its time is harmless. One script call, O(SKUs + adjustments).
func (g *Gate) RenewEpoch(ctx context.Context, activityID, epoch string, f Renewal) error {
	if err := validateEpoch(epoch); err != nil {
		return err
	}
	if err := f.Config.validate(); err != nil {
		return err
	}
	args := append([]any{epoch}, f.Config.args()...)
	args = append(args, strconv.Itoa(len(f.Totals)))
	skus := make([]string, 0, len(f.Totals))
	for sku, total := range f.Totals {
		if !contract.ValidID(sku) || total < 0 || total >= maxExact {
			return fmt.Errorf("stockgate: SKU %q or its total %d is out of range", sku, total)
		}
		skus = append(skus, sku)
	}
	slices.SortFunc(skus, compareIDs)
	for _, sku := range skus {
		args = append(args, sku, strconv.FormatInt(f.Totals[sku], 10))
	}
	for _, id := range f.Adjusted {
		if err := validateAdjustmentID(id); err != nil {
			return err
		}
		args = append(args, id)
	}
	_, err := g.run(ctx, scriptRenewEpoch, activityID, args...)
	return err
}

// KnownAdjustment is an adjustment that a gate has.
type KnownAdjustment struct {
	ID      string
	Applied bool // with SKUID and Delta; else it has no further effect
	SKUID   string
	Delta   int64 // units
}

// KnownAdjustments reads one page of the adjustments that a gate has. It starts with cursor 0 and is complete once
// next is 0, like Entries. One script call, O(count).
func (g *Gate) KnownAdjustments(ctx context.Context, activityID string, cursor uint64, count int) (
	list []KnownAdjustment, next uint64, err error,
) {
	reply, err := g.runStrings(ctx, scriptAdjustments, activityID, cursor, min(max(count, 1), maxPage))
	if err != nil {
		return nil, 0, err
	}
	if len(reply)%2 != 1 {
		return nil, 0, fmt.Errorf("stockgate: adjustments returned %d values", len(reply))
	}
	if next, err = strconv.ParseUint(reply[0], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("stockgate: cursor %q", reply[0])
	}
	for pair := range slices.Chunk(reply[1:], 2) {
		a := KnownAdjustment{ID: pair[0]}
		if sku, delta, ok := strings.Cut(pair[1], "|"); ok {
			if n, err := strconv.ParseInt(delta, 10, 64); err == nil {
				a.Applied, a.SKUID, a.Delta = true, sku, n
			}
		}
		list = append(list, a)
	}
	return list, next, nil
}
