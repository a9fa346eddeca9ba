package stockgate

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

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

// Adjust applies an adjustment once per id; a known id is nil and changes nothing (ErrAdjustmentConflict if it is known
// with another SKU or number). Taking pieces off fails with ErrInsufficient, and leaves no trace, unless so many are left
// or Force is set. After UndoAdjust the same id can be applied again. An attempt that Redis carries out late, after the
// caller gave it up and undid the adjustment, does nothing. Two round trips, O(1).
func (g *Gate) Adjust(ctx context.Context, ref Ref, a Adjustment) error {
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
	return g.adjust(ctx, ref, a.ID, "apply", a.SKUID, strconv.FormatInt(a.Delta, 10), force)
}

// UndoAdjust takes an adjustment back, once: an id that is not applied changes nothing, and neither does one that Preload
// named as contained in MySQL's figures. Two round trips, O(1).
func (g *Gate) UndoAdjust(ctx context.Context, ref Ref, id string) error {
	if err := validateAdjustmentID(id); err != nil {
		return err
	}
	return g.adjust(ctx, ref, id, "undo")
}

// adjust runs one step on the present round of the adjustment. Each undo begins a new round, and a rebuilt gate begins its
// own; a step that names an earlier round is a late one, and the script refuses it.
func (g *Gate) adjust(ctx context.Context, ref Ref, id, step string, args ...any) error {
	const rounds = 3 // somebody else undid the same adjustment meanwhile, so often
	for range rounds {
		stored, err := call(ctx, g, func(ctx context.Context) ([2]string, error) {
			p := g.rdb.Pipeline()
			life, round := p.HGet(ctx, ref.key("gate"), "life"), p.HGet(ctx, ref.key("adjusted"), id)
			if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
				return [2]string{}, err
			}
			return [2]string{life.Val(), round.Val()}, nil
		})
		if err != nil {
			return err
		}
		if stored[0] == "" {
			return ErrNoGate
		}
		answer, err := g.run(ctx, scriptAdjust, ref, append([]any{id, stored[0], stored[1], step}, args...)...)
		if err != nil || answer != "stale" {
			return err
		}
	}
	return fmt.Errorf("%w: adjustment %s is being changed by somebody else", ErrUnavailable, id)
}
