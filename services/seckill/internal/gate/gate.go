// Package gate joins the rules of the purchase path to pkg/stockgate. It sends the purchases of many callers with one
// script call, and it is where a purchase leaves its caller's trace for the journal.
package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
)

// Bounds of the groups.
const (
	lookupGroup = 256
	// A purchase is written to disk, so the fewer calls the better, one at a time. A look-up only waits for its turn at Redis:
	// with one at a time all buyers of a sold-out sale stood behind it, and the processor was idle.
	lookupCalls = 4
	maxKeys     = 1024 // gates with callers waiting
	gatherFor   = 2 * time.Millisecond
)

// Redis is the part of *stockgate.Gate that purchases and buyers need.
type Redis interface {
	Reserve(ctx context.Context, ref contract.GateRef, requests []stockgate.Request) ([]stockgate.Verdict, error)
	Lookup(ctx context.Context, ref contract.GateRef, orderSNs []string) (map[string]stockgate.Entry, error)
	Purchases(ctx context.Context, ref contract.GateRef, userID string) ([]string, error)
}

// Options of a Gate.
type Options struct {
	CallTimeout time.Duration // of one script call
	CallerWait  time.Duration // of one caller, for the outcome of a call; default 3 s
	Queue       int           // callers waiting for one gate
	// Accepted, when set, hears how many purchases a gate has just journaled. It must not block.
	Accepted func(ref contract.GateRef, n int)
}

// Gate implements core.Gate.
type Gate struct {
	redis    Redis
	tel      *telemetry.Telemetry
	accepted func(ref contract.GateRef, n int)
	size     metric.Int64Histogram
	reserves grouper[stockgate.Request, stockgate.Verdict]
	lookups  grouper[string, found]
}

type found struct {
	entry stockgate.Entry
	ok    bool
}

var _ core.Gate = (*Gate)(nil)

// New starts nothing; goroutines live while callers wait.
func New(redis Redis, tel *telemetry.Telemetry, o Options) (*Gate, error) {
	size, err := tel.Meter.Int64Histogram("flashsale.seckill.gate.group", metric.WithUnit("{purchase}"),
		metric.WithDescription("Purchases sent with one script call"),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128))
	if err != nil {
		return nil, err
	}
	g := &Gate{redis: redis, tel: tel, accepted: o.Accepted, size: size}
	if g.accepted == nil {
		g.accepted = func(contract.GateRef, int) {}
	}
	if o.CallerWait <= 0 {
		o.CallerWait = 3 * time.Second
	}
	// The wait for the call and the call together. Where they are set to the same there still is time to stand in line.
	patience := max(o.CallerWait-o.CallTimeout, o.CallerWait/4)
	g.reserves = grouper[stockgate.Request, stockgate.Verdict]{
		call: g.reserveGroup, timeout: o.CallTimeout, patience: patience, maxGroup: stockgate.MaxGroup, maxQueue: o.Queue, maxKeys: maxKeys, gather: gatherFor,
	}
	g.lookups = grouper[string, found]{
		call: g.lookupGroup, calls: lookupCalls, timeout: o.CallTimeout, patience: patience, maxGroup: lookupGroup, maxQueue: o.Queue, maxKeys: maxKeys, gather: gatherFor,
	}
	return g, nil
}

// Close takes no further callers and waits for those under way as long as ctx lasts.
func (g *Gate) Close(ctx context.Context) {
	g.reserves.close(ctx)
	g.lookups.close(ctx)
}

func refOf(activityID string) contract.GateRef { return contract.GateRef{ActivityID: activityID} }

// Reserve implements core.Gate. The span covers the wait for the group, and the journal entry hangs below it.
func (g *Gate) Reserve(ctx context.Context, activityID string, p core.Purchase) (_ core.Verdict, err error) {
	ctx, end := g.tel.Span(ctx, "gate reserve", trace.SpanKindInternal,
		telemetry.AttrActivityID.String(activityID), telemetry.AttrOrderSN.String(p.OrderSN))
	defer func() { end(err) }()
	v, err := g.reserves.do(activityID, stockgate.Request{
		OrderSN: p.OrderSN, UserID: p.UserID, Lines: p.Lines, Traceparent: telemetry.Traceparent(ctx),
	})
	if err != nil {
		return core.Verdict{}, mapped(err)
	}
	if v.Entry.Broken {
		return core.Verdict{}, unreadable(p.OrderSN)
	}
	trace.SpanFromContext(ctx).SetAttributes(telemetry.AttrOutcome.String(v.Outcome.String()))
	return toVerdict(activityID, v)
}

func (g *Gate) reserveGroup(ctx context.Context, activityID string, asked []stockgate.Request) (verdicts []stockgate.Verdict, err error) {
	parents := make([]string, len(asked))
	for i, r := range asked {
		parents[i] = r.Traceparent
	}
	ctx, batch := g.tel.StartBatch(ctx, "redis reserve", trace.SpanKindClient, parents, dbSystem)
	defer func() { batch.End(err) }()
	g.size.Record(ctx, int64(len(asked)))
	verdicts, err = g.redis.Reserve(ctx, refOf(activityID), asked)
	n := 0
	for _, v := range verdicts {
		if v.Outcome == stockgate.Accepted {
			n++
		}
	}
	if n > 0 {
		g.accepted(contract.GateRef{ActivityID: activityID}, n)
	}
	return verdicts, err
}

var dbSystem = attribute.String("db.system.name", "redis")

// Lookup implements core.Gate.
func (g *Gate) Lookup(ctx context.Context, activityID, orderSN string) (_ core.Reservation, _ bool, err error) {
	_, end := g.tel.Span(ctx, "gate lookup", trace.SpanKindClient, dbSystem,
		telemetry.AttrActivityID.String(activityID), telemetry.AttrOrderSN.String(orderSN))
	defer func() { end(err) }()
	f, err := g.lookups.do(activityID, orderSN)
	if err != nil || !f.ok {
		return core.Reservation{}, false, mapped(err)
	}
	if f.entry.Broken {
		return core.Reservation{}, false, unreadable(orderSN)
	}
	return toReservation(activityID, f.entry), true, nil
}

// unreadable is the answer to whoever asks for an entry that is damaged: he may ask again, as the reconciler writes it anew.
func unreadable(orderSN string) error {
	return mapped(fmt.Errorf("%w: entry of order_sn %s", stockgate.ErrBroken, orderSN))
}

func (g *Gate) lookupGroup(ctx context.Context, activityID string, orderSNs []string) ([]found, error) {
	entries, err := g.redis.Lookup(ctx, refOf(activityID), orderSNs)
	if err != nil {
		return nil, err
	}
	answers := make([]found, len(orderSNs))
	for i, sn := range orderSNs {
		answers[i].entry, answers[i].ok = entries[sn]
	}
	return answers, nil
}

// LookupAll implements core.Gate.
func (g *Gate) LookupAll(ctx context.Context, activityID string, orderSNs []string) (map[string]core.Reservation, error) {
	entries, err := g.redis.Lookup(ctx, refOf(activityID), orderSNs)
	if err != nil {
		return nil, mapped(err)
	}
	all := make(map[string]core.Reservation, len(entries))
	for sn, e := range entries {
		if !e.Broken {
			all[sn] = toReservation(activityID, e)
		}
	}
	return all, nil
}

// Buyer implements core.Gate.
func (g *Gate) Buyer(ctx context.Context, activityID, userID string) ([]string, error) {
	sns, err := g.redis.Purchases(ctx, refOf(activityID), userID)
	return sns, mapped(err)
}

var outcomes = map[stockgate.Outcome]core.Outcome{
	stockgate.Accepted:     core.Accepted,
	stockgate.Known:        core.Known,
	stockgate.Conflict:     core.Conflict,
	stockgate.NotStarted:   core.NotStarted,
	stockgate.Ended:        core.Ended,
	stockgate.Paused:       core.Paused,
	stockgate.SoldOut:      core.SoldOut,
	stockgate.LimitReached: core.LimitReached,
	stockgate.JournalFull:  core.JournalFull,
	stockgate.UnknownSKU:   core.UnknownSKU,
}

func toVerdict(activityID string, v stockgate.Verdict) (core.Verdict, error) {
	outcome, ok := outcomes[v.Outcome]
	if !ok {
		return core.Verdict{}, fmt.Errorf("the gate answered %s", v.Outcome)
	}
	out := core.Verdict{Outcome: outcome, OrderSNs: v.OrderSNs, StartsAt: v.StartsAt, MayReturnUntil: v.MayReturnUntil}
	if outcome == core.Accepted || outcome == core.Known {
		out.Reservation = toReservation(activityID, v.Entry)
	}
	return out, nil
}

func toReservation(activityID string, e stockgate.Entry) core.Reservation {
	return core.Reservation{
		ActivityID: activityID, OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines,
		Status: core.Status(e.Status), Reason: e.Reason, ExpiresAt: e.ExpiresAt,
	}
}

// mapped tells the core what happened in its own words.
func mapped(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stockgate.ErrNoGate):
		return fmt.Errorf("%w: %w", core.ErrNoGate, err)
	case errors.Is(err, stockgate.ErrNoSale):
		return fmt.Errorf("%w: %w", core.ErrNoSale, err)
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return core.ErrAway
	case errors.Is(err, stockgate.ErrUnavailable), errors.Is(err, stockgate.ErrBroken):
		return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	return err
}
