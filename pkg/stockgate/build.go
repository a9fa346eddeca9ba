package stockgate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
)

// buildChunk is the number of entries or ids that one script call of a build writes at most. It takes some milliseconds,
// in which Redis serves no one else.
const buildChunk = 256

// ErrBuildDiffers means that the units of the entries that were put are not those that Commit expects. The gate is
// still absent, and the build may go on.
var ErrBuildDiffers = errors.New("stockgate: entries do not add up")

// Build is a gate in the making: absent for all calls except those of the Build. It holds no entries; Redis counts
// their units. It is not safe for concurrent use.
//
// After ErrUnavailable the outcome of a call is unknown. The next call repeats the one before, if that was Put or
// PutAdjusted, so a Build survives a short outage. A Build that is abandoned leaves nothing that a later one would mix
// with. Of two concurrent builds of a gate, the one that began first fails with ErrSuperseded.
type Build struct {
	gate       *Gate
	activityID string
	token      string
	step       int64 // number of the last confirmed step
	open       []any // the step whose outcome is unknown, nil if there is none
}

// Shelf holds the units of one SKU. Left + Held + Sold = Total.
type Shelf struct{ Left, Held, Sold, Total int64 }

// Figures is what a gate holds besides its entries and adjustments.
type Figures struct {
	Config
	SKUs map[string]Shelf
	// EndedBefore is the number of purchases that ended before those that were put. They are only counted: see Totals.
	EndedBefore int64
	Epoch       string // of inventory's database, see epoch.go; "" while an import is to follow
	Importing   bool   // Reserve accepts nothing until RenewEpoch
}

// BeginBuild registers a gate and begins to build it. It fails with ErrGateExists if the gate exists. It removes
// leftovers of an earlier build or gate, except its journal, sale and counts. Two round trips.
func (g *Gate) BeginBuild(ctx context.Context, activityID string) (*Build, error) {
	if err := validateActivity(activityID); err != nil {
		return nil, err
	}
	if err := g.Register(ctx, activityID); err != nil { // before it exists: a relay must find whatever it journals
		return nil, err
	}
	b := &Build{gate: g, activityID: activityID, token: rand.Text()}
	return b, b.call(ctx, "begin", b.token)
}

// Put adds entries. One that was put before is replaced. Buyers, indexes and counters follow. It takes any number of
// entries, 256 to a script call, O(entries).
func (b *Build) Put(ctx context.Context, entries []Entry) error {
	for chunk := range slices.Chunk(entries, buildChunk) {
		args := make([]any, 0, 2*len(chunk))
		for _, e := range chunk {
			if err := validateEntry(e); err != nil {
				return err
			}
			e.Traceparent = storableTraceparent(e.Traceparent)
			stored, err := e.encode()
			if err != nil {
				return err
			}
			args = append(args, e.OrderSN, stored)
		}
		if err := b.next(ctx, "put", args); err != nil {
			return err
		}
	}
	return nil
}

// PutAdjusted adds ids of decided adjustments: contained in the figures of Commit, or never to be applied. It takes
// any number of ids, 256 to a script call, O(ids).
func (b *Build) PutAdjusted(ctx context.Context, ids []string) error {
	for chunk := range slices.Chunk(ids, buildChunk) {
		args := make([]any, len(chunk))
		for i, id := range chunk {
			if err := validateAdjustmentID(id); err != nil {
				return err
			}
			args[i] = id
		}
		if err := b.next(ctx, "adjusted", args); err != nil {
			return err
		}
	}
	return nil
}

// Commit makes the gate exist. It fails with ErrBuildDiffers if the entries hold or have bought other units than the
// figures state. A repeated Commit of a gate that it has made returns nil. So the caller repeats it after
// ErrUnavailable, also with other figures: after more entries were put, a late first attempt has no effect. One script
// call, O(SKUs).
func (b *Build) Commit(ctx context.Context, f Figures) error {
	if err := f.validate(); err != nil {
		return err
	}
	if err := b.resend(ctx); err != nil {
		return err
	}
	args := []any{"commit", b.token, strconv.FormatInt(b.step+1, 10)}
	args = append(args, f.Config.args()...)
	args = append(args, strconv.FormatInt(f.EndedBefore, 10), f.Epoch, importingField(f.Importing))
	for _, sku := range slices.SortedFunc(maps.Keys(f.SKUs), compareIDs) {
		s := f.SKUs[sku]
		args = append(args, sku)
		for _, n := range []int64{s.Left, s.Held, s.Sold, s.Total} {
			args = append(args, strconv.FormatInt(n, 10))
		}
	}
	return b.call(ctx, args...)
}

// next makes the next step, after the one whose outcome is unknown.
func (b *Build) next(ctx context.Context, name string, args []any) error {
	if err := b.resend(ctx); err != nil {
		return err
	}
	b.open = append([]any{name, b.token, strconv.FormatInt(b.step+1, 10)}, args...)
	return b.resend(ctx)
}

// resend repeats the step whose outcome is unknown.
func (b *Build) resend(ctx context.Context) error {
	if b.open == nil {
		return nil
	}
	if err := b.call(ctx, b.open...); err != nil {
		return err
	}
	b.step++
	b.open = nil
	return nil
}

func (b *Build) call(ctx context.Context, args ...any) error {
	reply, err := b.gate.run(ctx, scriptPreload, b.activityID, args...)
	if err != nil {
		return err
	}
	switch word, _ := reply.(string); {
	case word == "ok":
		return nil
	case word == "live":
		return ErrGateExists
	case word == "superseded":
		return ErrSuperseded
	case strings.HasPrefix(word, "differs "):
		return fmt.Errorf("%w: SKU, held and sold units of the entries: %s", ErrBuildDiffers,
			strings.TrimPrefix(word, "differs "))
	}
	return fmt.Errorf("stockgate: preload returned %v", reply)
}

func (f Figures) validate() error {
	if err := f.Config.validate(); err != nil {
		return err
	}
	if f.EndedBefore < 0 || f.EndedBefore >= maxExact {
		return fmt.Errorf("stockgate: %d ended purchases are out of range", f.EndedBefore)
	}
	if f.Epoch != "" {
		if err := validateEpoch(f.Epoch); err != nil {
			return err
		}
	}
	if len(f.SKUs) == 0 {
		return fmt.Errorf("stockgate: a gate needs at least one SKU")
	}
	for sku, s := range f.SKUs {
		switch {
		case !contract.ValidID(sku):
			return fmt.Errorf("stockgate: sku id %q is malformed", sku)
		case s.Held < 0 || s.Sold < 0 || s.Total < 0 || s.Total >= maxExact:
			return fmt.Errorf("stockgate: SKU %s: held %d, sold %d or total %d is out of range",
				sku, s.Held, s.Sold, s.Total)
		case s.Left+s.Held+s.Sold != s.Total:
			return fmt.Errorf("stockgate: SKU %s does not add up: left %d + held %d + sold %d is not total %d",
				sku, s.Left, s.Held, s.Sold, s.Total)
		}
	}
	return nil
}

func validateEntry(e Entry) error {
	if err := validatePurchase(e.OrderSN, e.UserID, e.Lines); err != nil {
		return err
	}
	if !e.terminal() {
		return nil
	}
	if err := validateReason(e.OrderSN, e.Reason); err != nil {
		return err
	}
	if e.EndedAt.IsZero() {
		return fmt.Errorf("stockgate: order_sn %s has ended, but its end time is missing", e.OrderSN)
	}
	return nil
}
