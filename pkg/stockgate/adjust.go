package stockgate

import (
	"context"
	"fmt"
	"strconv"

	"flashsale.internal/pkg/contract"
)

// Adjustment adds units to a SKU, or removes unsold ones. It changes left and total alike.
type Adjustment struct {
	ID    string // 1 to 64 of a-z 0-9 _ -
	SKUID string
	Delta int64 // units, not 0; negative to remove
	Force bool  // remove units even if fewer are left, because MySQL has committed the adjustment
}

const maxAdjustmentID = 64

func validateAdjustmentID(id string) error {
	if !validToken(id, maxAdjustmentID) {
		return fmt.Errorf("stockgate: adjustment id %q is malformed", id)
	}
	return nil
}

// Adjust applies an adjustment once per id. It returns nil and changes nothing if the id is already applied with the
// same SKU and quantity, was undone, or was in the snapshot of Preload. For the latter two it fails with ErrDecided
// instead if it removes units and Force is not set: the gate may still have them. It fails with ErrAdjustmentConflict if
// the id is applied with another SKU or quantity, and with ErrInsufficient, storing nothing, if fewer units are left than
// it removes and Force is not set. One script call, O(1).
func (g *Gate) Adjust(ctx context.Context, activityID string, a Adjustment) error {
	if err := validateAdjustmentID(a.ID); err != nil {
		return err
	}
	if !contract.ValidID(a.SKUID) {
		return fmt.Errorf("stockgate: sku id %q is malformed", a.SKUID)
	}
	if a.Delta == 0 || a.Delta > contract.MaxStock || a.Delta < -contract.MaxStock {
		return fmt.Errorf("stockgate: adjustment by %d units is out of range", a.Delta)
	}
	force := "0"
	if a.Force {
		force = "1"
	}
	_, err := g.run(ctx, scriptAdjust, activityID, a.ID, "apply", a.SKUID, strconv.FormatInt(a.Delta, 10), force)
	return err
}

// UndoAdjust reverts an adjustment and marks its id as decided, also one that was never applied: a late attempt to
// apply it has no effect. An id from the snapshot of Preload changes nothing. One script call, O(1).
func (g *Gate) UndoAdjust(ctx context.Context, activityID, id string) error {
	if err := validateAdjustmentID(id); err != nil {
		return err
	}
	_, err := g.run(ctx, scriptAdjust, activityID, id, "undo")
	return err
}
