// Package gate implements the ports of the gates on pkg/stockgate, for all packages that use them.
package gate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Gate implements the ports of a gate, of all packages that use one.
type Gate struct{ gate *stockgate.Gate }

// New makes the adapter.
func New(g *stockgate.Gate) *Gate { return &Gate{gate: g} }

var translations = []struct{ theirs, ours error }{
	{stockgate.ErrNoGate, core.ErrNoGate},
	{stockgate.ErrUnavailable, core.ErrGateUnavailable},
	{stockgate.ErrSuperseded, core.ErrGateUnavailable}, // a concurrent build or correction: retry
	{stockgate.ErrStaleVersion, core.ErrGateVersion},
	{stockgate.ErrInsufficient, core.ErrGateInsufficient},
	{stockgate.ErrDecided, core.ErrGateDecided},
	{stockgate.ErrGateExists, core.ErrGateLive},
	{stockgate.ErrBuildDiffers, core.ErrBuildDiffers},
}

// translate maps the errors of stockgate to those of core. All others are permanent: ErrGateBroken.
func translate(err error) error {
	if err == nil {
		return nil
	}
	for _, t := range translations {
		if errors.Is(err, t.theirs) {
			return fmt.Errorf("%w: %w", t.ours, err)
		}
	}
	return fmt.Errorf("%w: %w", core.ErrGateBroken, err)
}

func state(s core.ActivityState) stockgate.GateState {
	switch s {
	case core.ActivityPaused:
		return stockgate.GatePaused
	case core.ActivityEnded:
		return stockgate.GateEnded
	}
	return stockgate.GateOpen
}

var states = map[stockgate.GateState]core.ActivityState{
	stockgate.GateOpen: core.ActivityPublished, stockgate.GatePaused: core.ActivityPaused,
	stockgate.GateEnded: core.ActivityEnded,
}

func config(c core.GateConfig) stockgate.Config {
	return stockgate.Config{
		State: state(c.State), StartsAt: c.StartsAt, EndsAt: c.EndsAt, PerUserLimit: c.PerUserLimit,
		ReorderLimit: c.ReorderLimit, RoomRate: c.RoomRate, Challenge: c.Challenge, Version: c.Version,
	}
}

// Configure implements gates.Effects.
func (g *Gate) Configure(ctx context.Context, activityID string, c core.GateConfig) error {
	return translate(g.gate.Configure(ctx, activityID, config(c)))
}

// Settle implements gates.Effects.
func (g *Gate) Settle(ctx context.Context, activityID string, list []ledger.Entry) error {
	items := make([]stockgate.Settlement, len(list))
	for i, s := range list {
		items[i] = stockgate.Settlement{
			OrderSN: s.OrderSN, UserID: s.UserID, Lines: s.Lines, Step: stockgate.Step(s.Stage), ExpiresAt: s.ExpiresAt,
		}
	}
	return translate(g.gate.Settle(ctx, activityID, items))
}

func endings(list []ledger.Entry) []stockgate.Ending {
	items := make([]stockgate.Ending, len(list))
	for i, e := range list {
		items[i] = stockgate.Ending{OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines, Reason: e.Reason}
	}
	return items
}

// Release implements gates.Effects.
func (g *Gate) Release(ctx context.Context, activityID string, list []ledger.Entry) error {
	return translate(g.gate.Release(ctx, activityID, endings(list)))
}

// Drop implements gates.Effects.
func (g *Gate) Drop(ctx context.Context, activityID string, list []ledger.Entry) error {
	return translate(g.gate.Drop(ctx, activityID, endings(list)))
}

// Adjust implements gates.Effects.
func (g *Gate) Adjust(ctx context.Context, activityID string, a core.Adjustment, force bool) error {
	return translate(g.gate.Adjust(ctx, activityID,
		stockgate.Adjustment{ID: a.ID, SKUID: a.SKUID, Delta: a.Delta, Force: force}))
}

// UndoAdjust implements gates.Effects.
func (g *Gate) UndoAdjust(ctx context.Context, activityID string, a core.Adjustment) error {
	return translate(g.gate.UndoAdjust(ctx, activityID, a.ID))
}

// Audit implements gates.Registry.
func (g *Gate) Audit(ctx context.Context, activityID string) (core.GateAudit, error) {
	a, err := g.gate.Audit(ctx, activityID)
	if err != nil {
		return core.GateAudit{}, translate(err)
	}
	return audit(a), nil
}

func audit(a stockgate.Audit) core.GateAudit {
	out := core.GateAudit{
		Config: core.GateConfig{
			State: states[a.State], StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: a.PerUserLimit,
			ReorderLimit: a.ReorderLimit, RoomRate: a.RoomRate, Challenge: a.Challenge, Version: a.Version,
		},
		SKUs: make(map[string]core.GateStock, len(a.SKUs)), Revision: revision(a.Revision), Held: a.Held,
		Incomplete: a.Incomplete, Epoch: a.Epoch, Importing: a.Importing, Trimmed: a.Trimmed,
		Entries: a.EntriesLen, Unlanded: a.UnlandedLen, Ended: a.EndedLen,
	}
	for sku, c := range a.SKUs {
		out.SKUs[sku] = core.GateStock{
			Left: c.Left, Held: c.Held, Sold: c.Sold, Total: c.Total, Journal: c.Journal, InFlight: c.InFlight,
		}
	}
	return out
}

// Unlanded implements sweep.JournalGate.
func (g *Gate) Unlanded(
	ctx context.Context, activityID string, from, before time.Time, limit int,
) ([]core.GateEntry, error) {
	list, err := g.gate.Unlanded(ctx, activityID, from, before, limit)
	if err != nil {
		return nil, translate(err)
	}
	out := make([]core.GateEntry, len(list))
	for i, e := range list {
		out[i] = core.GateEntry{OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines, JournaledAt: e.JournaledAt}
	}
	return out, nil
}

// Rejournal implements sweep.JournalGate.
func (g *Gate) Rejournal(ctx context.Context, activityID string, orderSNs []string) (int, error) {
	n, err := g.gate.Rejournal(ctx, activityID, orderSNs)
	return n, translate(err)
}

// Lookup returns the entry of an order_sn, nil if the gate has none.
func (g *Gate) Lookup(ctx context.Context, activityID, orderSN string) (*core.GateEntry, error) {
	found, err := g.gate.Lookup(ctx, activityID, []string{orderSN})
	if err != nil {
		return nil, translate(err)
	}
	e, ok := found[orderSN]
	if !ok {
		return nil, nil
	}
	if e.Broken {
		return nil, translate(fmt.Errorf("%w: entry of order_sn %s", stockgate.ErrBroken, orderSN))
	}
	return &core.GateEntry{OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines}, nil
}

// Known implements gates.Effects.
func (g *Gate) Known(ctx context.Context, activityID string, orderSNs []string) (map[string]bool, error) {
	found, err := g.gate.Lookup(ctx, activityID, orderSNs)
	if err != nil {
		return nil, translate(err)
	}
	known := make(map[string]bool, len(found))
	for sn := range found {
		known[sn] = true
	}
	return known, nil
}

// trimBatch bounds the entries that one call deletes.
const trimBatch = 500

// Trim implements gates.Registry.
func (g *Gate) Trim(ctx context.Context, activityID string) error {
	_, err := g.gate.Trim(ctx, activityID, trimBatch)
	return translate(err)
}

// Registered implements gates.Registry.
func (g *Gate) Registered(ctx context.Context) ([]string, error) {
	activityIDs, err := g.gate.Registered(ctx)
	return activityIDs, translate(err)
}

// Register implements gates.Registry.
func (g *Gate) Register(ctx context.Context, activityIDs []string) error {
	return translate(g.gate.Register(ctx, activityIDs...))
}

// Unregister implements gates.Registry.
func (g *Gate) Unregister(ctx context.Context, activityID string) error {
	return translate(g.gate.Unregister(ctx, activityID))
}

// ShowSale implements gates.Effects.
func (g *Gate) ShowSale(ctx context.Context, a core.Activity) error {
	sale := saleOf(a)
	shown, err := g.gate.Sale(ctx, a.ID)
	switch {
	case err == nil && same(shown, sale):
		return nil
	case err != nil && !errors.Is(err, stockgate.ErrNoSale):
		return translate(err)
	}
	return translate(g.gate.PutSale(ctx, sale))
}

// ReplaceSale implements restore.Renewals.
func (g *Gate) ReplaceSale(ctx context.Context, a core.Activity) error {
	return translate(g.gate.ReplaceSale(ctx, saleOf(a)))
}

func saleOf(a core.Activity) stockgate.Sale {
	sale := stockgate.Sale{
		ActivityID: a.ID, Title: a.Title, Description: a.Description, ImageURL: a.ImageURL, State: state(a.State),
		StartsAt: a.StartsAt, EndsAt: a.EndsAt, PerUserLimit: a.PerUserLimit, PayWithinS: a.PayWithinS, Version: a.Version,
		DegradedSale: a.Degraded != nil || !a.UsesGate(),
		Items:        make([]stockgate.SaleItem, 0, len(a.Items)),
	}
	if s := a.Seller; s != nil {
		sale.Seller = &stockgate.SaleSeller{Name: s.Name, TermsURL: s.TermsURL, Delivery: s.Delivery}
	}
	if n := a.Notice; n != nil {
		sale.Notice = &stockgate.SaleNotice{Text: n.Text, At: n.At}
	}
	for _, it := range a.Items {
		sale.Items = append(sale.Items, stockgate.SaleItem{
			SKUID: it.SKUID, Name: it.Name, ImageURL: it.ImageURL, Price: it.Price, ListPrice: it.ListPrice,
			Currency: a.Currency, Total: it.Total,
		})
	}
	return sale
}

func same(a, b stockgate.Sale) bool {
	if !a.StartsAt.Equal(b.StartsAt) || !a.EndsAt.Equal(b.EndsAt) {
		return false
	}
	a.StartsAt, a.EndsAt = b.StartsAt, b.EndsAt
	if x, y := a.Notice, b.Notice; x != nil && y != nil && x.Text == y.Text && x.At.Equal(y.At) {
		a.Notice = y
	}
	return reflect.DeepEqual(a, b)
}

// Ready implements gates.Redis.
func (g *Gate) Ready(ctx context.Context) (bool, error) {
	ok, err := g.gate.Ready(ctx)
	return ok, translate(err)
}

// BeginFilling implements gates.Redis.
func (g *Gate) BeginFilling(ctx context.Context) (string, error) {
	filling, err := g.gate.BeginFilling(ctx)
	return filling, translate(err)
}

// MarkReady implements gates.Redis.
func (g *Gate) MarkReady(ctx context.Context) error { return translate(g.gate.MarkReady(ctx)) }

// ReplicationID implements gates.Redis.
func (g *Gate) ReplicationID(ctx context.Context) (string, error) {
	id, err := g.gate.ReplicationID(ctx)
	return id, translate(err)
}

// Now implements sweep.JournalGate.
func (g *Gate) Now(ctx context.Context) (time.Time, error) {
	now, err := g.gate.Now(ctx)
	return now, translate(err)
}
