package stockgate

import (
	"context"
	"fmt"
	"strconv"

	"flashsale.internal/pkg/contract"
)

// Adjustment adds pieces to a SKU or takes unsold ones off, left and total alike.
type Adjustment struct {
	ID    string // 1 to 64 of a-z 0-9 _ -
	SKUID string
	Delta int64 // not 0
	Force bool  // take them off even if fewer are left: MySQL has done it already
}

const maxAdjustmentID = 64

func validateAdjustmentID(id string) error {
	if !validToken(id, maxAdjustmentID) {
		return fmt.Errorf("stockgate: adjustment id %q is malformed", id)
	}
	return nil
}

// Adjust applies an adjustment once per id; an id that is applied is nil and changes nothing (ErrAdjustmentConflict if it
// is known with another SKU or number), and so is one that is over: undone, or named by Preload. Taking pieces off fails
// with ErrInsufficient, and leaves no trace, unless so many are left or Force is set. One script call, O(1).
func (g *Gate) Adjust(ctx context.Context, ref contract.GateRef, a Adjustment) error {
	if err := validateAdjustmentID(a.ID); err != nil {
		return err
	}
	if !contract.ValidID(a.SKUID) {
		return fmt.Errorf("stockgate: sku id %q is malformed", a.SKUID)
	}
	if a.Delta == 0 || a.Delta > contract.MaxStock || a.Delta < -contract.MaxStock {
		return fmt.Errorf("stockgate: adjustment by %d pieces", a.Delta)
	}
	force := "0"
	if a.Force {
		force = "1"
	}
	_, err := g.run(ctx, scriptAdjust, ref, a.ID, "apply", a.SKUID, strconv.FormatInt(a.Delta, 10), force)
	return err
}

// UndoAdjust takes an adjustment back and ends it, also one that was never applied: no attempt of it that Redis carries out
// late does anything any more. What Preload named changes nothing. One script call, O(1).
func (g *Gate) UndoAdjust(ctx context.Context, ref contract.GateRef, id string) error {
	if err := validateAdjustmentID(id); err != nil {
		return err
	}
	_, err := g.run(ctx, scriptAdjust, ref, id, "undo")
	return err
}
