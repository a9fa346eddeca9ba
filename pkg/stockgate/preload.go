package stockgate

import (
	"context"
	"fmt"
	"slices"
)

// Snapshot is the content of a gate that Preload builds, as it is at one moment.
type Snapshot struct {
	Config
	Stock    map[string]int64 // units left, by SKU
	Totals   map[string]int64 // units in all, by SKU
	Entries  []Entry          // all that hold units, and those that ended in the last 24 h
	Adjusted []string         // ids of decided adjustments: contained in the figures, or never to be applied
	// EndedBefore is the number of purchases that ended before those in Entries. They are only counted: see Totals.
	EndedBefore int64
	Epoch       string // of inventory's database, see epoch.go; "" only in tests
	Importing   bool   // Reserve accepts nothing until RenewEpoch
}

// Preload builds a gate from a snapshot, as a Build does. It fails with ErrGateExists if the gate exists, and never
// changes an existing gate. The total of accepted purchases becomes the number of Entries and EndedBefore. After
// ErrUnavailable the gate may exist or not: the caller repeats the call, and may take ErrGateExists for success only
// if its own first call can have built the gate.
//
// The snapshot must add up: for each SKU, Stock + units held by its entries = Total. O(entries).
func (g *Gate) Preload(ctx context.Context, activityID string, s Snapshot) error {
	f, err := s.figures()
	if err != nil {
		return err
	}
	// The lists of the buyers' records are in this order.
	entries := slices.Clone(s.Entries)
	slices.SortFunc(entries, func(a, b Entry) int { return compareIDs(a.OrderSN, b.OrderSN) })
	for i, e := range entries {
		if i > 0 && entries[i-1].OrderSN == e.OrderSN {
			return fmt.Errorf("stockgate: order_sn %s is in the snapshot twice", e.OrderSN)
		}
	}
	b, err := g.BeginBuild(ctx, activityID)
	if err != nil {
		return err
	}
	if err := b.Put(ctx, entries); err != nil {
		return err
	}
	if err := b.PutAdjusted(ctx, s.Adjusted); err != nil {
		return err
	}
	return b.Commit(ctx, f)
}

// figures validates the snapshot and adds up the units of its entries.
func (s Snapshot) figures() (Figures, error) {
	f := Figures{Config: s.Config, SKUs: make(map[string]Shelf, len(s.Stock)), EndedBefore: s.EndedBefore, Epoch: s.Epoch, Importing: s.Importing}
	if len(s.Stock) != len(s.Totals) {
		return f, fmt.Errorf("stockgate: stock of %d SKUs, totals of %d", len(s.Stock), len(s.Totals))
	}
	for sku, left := range s.Stock {
		total, ok := s.Totals[sku]
		if !ok {
			return f, fmt.Errorf("stockgate: SKU %s: its total is missing", sku)
		}
		f.SKUs[sku] = Shelf{Left: left, Total: total}
	}
	for _, e := range s.Entries {
		if err := validateEntry(e); err != nil {
			return f, err
		}
		if _, err := e.stage(); err != nil {
			return f, err
		}
		if err := f.add(e); err != nil {
			return f, err
		}
	}
	for _, id := range s.Adjusted {
		if err := validateAdjustmentID(id); err != nil {
			return f, err
		}
	}
	return f, f.validate()
}

// add counts the units that an entry holds or has bought.
func (f Figures) add(e Entry) error {
	if e.terminal() {
		return nil
	}
	for _, l := range e.Lines {
		s, ok := f.SKUs[l.SKUID]
		switch {
		case !ok:
			return fmt.Errorf("stockgate: order_sn %s holds SKU %s, which is not sold here", e.OrderSN, l.SKUID)
		case e.Status == StatusPaid:
			s.Sold += l.Qty
		default:
			s.Held += l.Qty
		}
		f.SKUs[l.SKUID] = s
	}
	return nil
}
