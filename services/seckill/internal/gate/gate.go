// Package gate implements the ports of core on pkg/stockgate. It sends the purchases of many callers with one script
// call and passes the trace of each caller to the journal.
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

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/grouping"
)

// Bounds of the groups.
const (
	lookupGroup = 256 // order_sns in one lookup call, and buyers in one call that reads allowances
	// lookupCalls is the number of lookup calls in flight for one gate. Reserve calls are made one at a time: Redis
	// writes each of them to disk, so fewer and larger calls cost less. A lookup writes nothing. With one lookup call at
	// a time, the buyers of a sold-out sale waited for its round trip while the processor was idle.
	lookupCalls = 4
)

// Redis holds the methods of *stockgate.Gate that SharedCalls use.
type Redis interface {
	Reserve(ctx context.Context, activityID string, requests []stockgate.Request) ([]stockgate.Verdict, error)
	Lookup(ctx context.Context, activityID string, orderSNs []string) (map[string]stockgate.Entry, error)
	Allowances(ctx context.Context, activityID string, userIDs []string) ([]stockgate.Allowance, error)
	Purchases(ctx context.Context, activityID, userID string) (stockgate.BuyerPurchases, error)
	WaitsForReplicas() bool
	Confirm(ctx context.Context, activityID string, orderSNs []string) (map[string]stockgate.Entry, error)
}

// Options are the options of SharedCalls.
type Options struct {
	grouping.Bounds
	// Accepted, if set, is called with the number of purchases that a call has journaled. It must not block.
	Accepted func(activityID string, n int)
	// Keeps, if set, reports whether Kept is called with the purchases of the activity that a call has journaled. Both
	// must not block.
	Keeps func(activityID string) bool
	Kept  func(activityID string, list []core.Acceptance)
	// Waited, if set, is called before each call that reserves, with the number of its purchases and their mean wait for
	// the call before it. It must not block.
	Waited func(n int, mean time.Duration)
	// Delay, if set, returns the time until the next call that may accept purchases. The gate waits for it as far as no
	// purchase gets a time-out and its queue does not fill. It must not block.
	Delay func() time.Duration
}

// SharedCalls implements core.Purchases by the gates in Redis. Many callers share one script call.
type SharedCalls struct {
	redis       Redis
	tel         *telemetry.Telemetry
	accepted    func(activityID string, n int)
	waited      func(n int, mean time.Duration)
	keeps       func(activityID string) bool
	kept        func(activityID string, list []core.Acceptance)
	size        metric.Int64Histogram
	wait        metric.Float64Histogram
	unconfirmed metric.Int64Counter
	reserves    *grouping.Grouper[stockgate.Request, stockgate.Verdict]
	lookups     *grouping.Grouper[string, found]
	allowances  *grouping.Grouper[string, stockgate.Allowance]
}

type found struct {
	entry stockgate.Entry
	ok    bool
}

var _ core.Purchases = (*SharedCalls)(nil)

// New returns SharedCalls. Their goroutines live while callers wait.
func New(redis Redis, tel *telemetry.Telemetry, o Options) (*SharedCalls, error) {
	size, err := tel.Meter.Int64Histogram("flashsale.seckill.gate.group", metric.WithUnit("{purchase}"),
		metric.WithDescription("Number of purchases in one script call"),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128))
	if err != nil {
		return nil, err
	}
	unconfirmed, err := telemetry.NewCounter(tel.Meter, "flashsale.seckill.gate.unconfirmed", "{purchase}",
		"Purchases refused as too few replicas of Redis confirmed them in time; their buyers repeat")
	if err != nil {
		return nil, err
	}
	wait, err := tel.Meter.Float64Histogram("flashsale.seckill.gate.wait", metric.WithUnit("s"),
		metric.WithDescription("Time from a purchase's arrival at the gate to the end of the script call that was in flight, "+
			"mean of the purchases of the next call"),
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1))
	if err != nil {
		return nil, err
	}
	g := &SharedCalls{
		redis: redis, tel: tel, accepted: o.Accepted, waited: o.Waited, keeps: o.Keeps, kept: o.Kept, size: size,
		wait: wait, unconfirmed: unconfirmed,
	}
	if g.accepted == nil {
		g.accepted = func(string, int) {}
	}
	if g.waited == nil {
		g.waited = func(int, time.Duration) {}
	}
	g.reserves = grouping.New(grouping.Options{
		Bounds: o.Bounds, Size: stockgate.MaxGroup, Gathers: true, Waited: g.recordWait, Delay: o.Delay,
	}, g.reserveGroup)
	g.lookups = grouping.New(grouping.Options{
		Bounds: o.Bounds, Size: lookupGroup, Calls: lookupCalls, Gathers: true,
	}, g.lookupGroup)
	// No call that reads allowances waits for others: the same buyers wait for their purchases next, and each pause made
	// both of their calls later.
	g.allowances = grouping.New(grouping.Options{Bounds: o.Bounds, Size: lookupGroup, Calls: lookupCalls}, redis.Allowances)
	return g, nil
}

// Close refuses new calls and waits for those in flight until ctx ends.
func (g *SharedCalls) Close(ctx context.Context) {
	g.reserves.Close(ctx)
	g.lookups.Close(ctx)
	g.allowances.Close(ctx)
}

// Reserve implements core.Purchases. Its span covers the wait for the group and is the parent of the journal entry.
func (g *SharedCalls) Reserve(ctx context.Context, activityID string, p core.Purchase) (_ core.Verdict, err error) {
	ctx, end := g.tel.Span(ctx, "gate reserve", trace.SpanKindInternal,
		telemetry.AttrActivityID.String(activityID), telemetry.AttrOrderSN.String(p.OrderSN))
	defer func() { end(err) }()
	v, err := g.reserves.Do(activityID, stockgate.Request{
		OrderSN: p.OrderSN, UserID: p.UserID, Lines: p.Lines, IssuedAt: p.IssuedAt,
		Traceparent: telemetry.Traceparent(ctx),
	})
	if err != nil {
		return core.Verdict{}, MapError(err)
	}
	if v.Entry.Broken {
		return core.Verdict{}, unreadable(p.OrderSN)
	}
	trace.SpanFromContext(ctx).SetAttributes(telemetry.AttrOutcome.String(v.Outcome.String()))
	return toVerdict(activityID, v)
}

func (g *SharedCalls) recordWait(n int, mean time.Duration) {
	g.wait.Record(context.Background(), mean.Seconds())
	g.waited(n, mean)
}

// reserveGroup reserves for the requests of many callers with one script call.
func (g *SharedCalls) reserveGroup(
	ctx context.Context, activityID string, requests []stockgate.Request,
) (verdicts []stockgate.Verdict, err error) {
	parents := make([]string, len(requests))
	for i, r := range requests {
		parents[i] = r.Traceparent
	}
	ctx, batch := g.tel.StartBatch(ctx, "redis reserve", trace.SpanKindClient, parents, dbSystem)
	defer func() { batch.End(err) }()
	g.size.Record(ctx, int64(len(requests)))
	verdicts, err = g.redis.Reserve(ctx, activityID, requests)
	n, unconfirmed := 0, 0
	for _, v := range verdicts {
		if v.Outcome == stockgate.Accepted || v.Outcome == stockgate.Unconfirmed { // both may be journaled
			n++
		}
		if v.Outcome == stockgate.Unconfirmed {
			unconfirmed++
		}
	}
	if unconfirmed > 0 {
		g.unconfirmed.Add(ctx, int64(unconfirmed))
	}
	if n > 0 {
		g.keep(activityID, requests, verdicts)
		g.accepted(activityID, n)
	}
	return verdicts, err
}

// keep passes on the purchases that a call has journaled, if they are kept.
func (g *SharedCalls) keep(activityID string, requests []stockgate.Request, verdicts []stockgate.Verdict) {
	if g.keeps == nil || !g.keeps(activityID) {
		return
	}
	var list []core.Acceptance
	for i, v := range verdicts {
		if v.Outcome == stockgate.Accepted || v.Outcome == stockgate.Unconfirmed {
			r := requests[i]
			list = append(list, core.Acceptance{
				Purchase:   core.Purchase{OrderSN: r.OrderSN, UserID: r.UserID, Lines: r.Lines},
				ReservedAt: v.Entry.ReservedAt, Traceparent: r.Traceparent,
			})
		}
	}
	g.kept(activityID, list)
}

var dbSystem = attribute.String("db.system.name", "redis")

// Lookup implements core.Purchases.
func (g *SharedCalls) Lookup(ctx context.Context, activityID, orderSN string) (_ core.Reservation, _ bool, err error) {
	_, end := g.tel.Span(ctx, "gate lookup", trace.SpanKindClient, dbSystem,
		telemetry.AttrActivityID.String(activityID), telemetry.AttrOrderSN.String(orderSN))
	defer func() { end(err) }()
	f, err := g.lookups.Do(activityID, orderSN)
	if err != nil || !f.ok {
		return core.Reservation{}, false, MapError(err)
	}
	if f.entry.Broken {
		return core.Reservation{}, false, unreadable(orderSN)
	}
	return toReservation(activityID, f.entry), true, nil
}

// unreadable returns the error for a damaged entry. It is ErrUnavailable, so that the buyer retries: the reconciler
// rewrites the entry.
func unreadable(orderSN string) error {
	return MapError(fmt.Errorf("%w: entry of order_sn %s", stockgate.ErrBroken, orderSN))
}

func (g *SharedCalls) lookupGroup(ctx context.Context, activityID string, orderSNs []string) ([]found, error) {
	entries, err := g.redis.Lookup(ctx, activityID, orderSNs)
	if err != nil {
		return nil, err
	}
	results := make([]found, len(orderSNs))
	for i, sn := range orderSNs {
		results[i].entry, results[i].ok = entries[sn]
	}
	return results, nil
}

// LookupAll implements core.Purchases.
func (g *SharedCalls) LookupAll(
	ctx context.Context, activityID string, orderSNs []string,
) (map[string]core.Reservation, error) {
	entries, err := g.redis.Lookup(ctx, activityID, orderSNs)
	if err != nil {
		return nil, MapError(err)
	}
	all := make(map[string]core.Reservation, len(entries))
	for sn, e := range entries {
		if !e.Broken {
			all[sn] = toReservation(activityID, e)
		}
	}
	return all, nil
}

// Allowance implements core.Purchases.
func (g *SharedCalls) Allowance(_ context.Context, activityID, userID string) (core.Allowance, error) {
	a, err := g.allowances.Do(activityID, userID)
	return core.Allowance(a), MapError(err)
}

// OfUser implements core.Purchases.
func (g *SharedCalls) OfUser(ctx context.Context, activityID, userID string) (core.UserPurchases, error) {
	own, err := g.redis.Purchases(ctx, activityID, userID)
	return core.UserPurchases(own), MapError(err)
}

// Confirm implements core.Purchases.
func (g *SharedCalls) Confirm(ctx context.Context, r core.Reservation) (core.Reservation, bool, error) {
	if !g.redis.WaitsForReplicas() {
		return r, true, nil
	}
	entries, err := g.redis.Confirm(ctx, r.ActivityID, []string{r.OrderSN})
	e, ok := entries[r.OrderSN]
	if errors.Is(err, stockgate.ErrUnconfirmed) || err == nil && !ok {
		g.unconfirmed.Add(ctx, 1)
	}
	switch {
	case err != nil || !ok:
		return core.Reservation{}, false, MapError(err)
	case e.Broken:
		return core.Reservation{}, false, unreadable(r.OrderSN)
	}
	return toReservation(r.ActivityID, e), true, nil
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
	stockgate.PathVoid:     core.PathVoid,
	stockgate.JournalFull:  core.JournalFull,
	stockgate.UnknownSKU:   core.UnknownSKU,
}

func toVerdict(activityID string, v stockgate.Verdict) (core.Verdict, error) {
	if v.Outcome == stockgate.Unconfirmed {
		return core.Verdict{}, core.ErrUnconfirmed
	}
	if v.Outcome == stockgate.Importing {
		return core.Verdict{}, fmt.Errorf("%w: the gate waits until inventory has imported what a restore lost",
			core.ErrUnavailable)
	}
	outcome, ok := outcomes[v.Outcome]
	if !ok {
		return core.Verdict{}, fmt.Errorf("unknown outcome %s from the gate", v.Outcome)
	}
	out := core.Verdict{
		Outcome: outcome, OrderSNs: v.OrderSNs, BarredUntil: v.BarredUntil, StartsAt: v.StartsAt,
		MayReturnUntil: v.MayReturnUntil,
	}
	if outcome == core.Accepted || outcome == core.Known {
		out.Reservation = toReservation(activityID, v.Entry)
	}
	return out, nil
}

func toReservation(activityID string, e stockgate.Entry) core.Reservation {
	return core.Reservation{
		ActivityID: activityID, OrderSN: e.OrderSN, UserID: e.UserID, Lines: e.Lines,
		Status: core.Status(e.Status), Reason: e.Reason, ReservedAt: e.ReservedAt, ExpiresAt: e.ExpiresAt,
	}
}

// MapError converts an error of stockgate to one of core.
func MapError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stockgate.ErrNoGate):
		return fmt.Errorf("%w: %w", core.ErrNoGate, err)
	case errors.Is(err, stockgate.ErrNoSale):
		return fmt.Errorf("%w: %w", core.ErrNoSale, err)
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return core.ErrBreakerOpen
	case errors.Is(err, stockgate.ErrUnconfirmed):
		return core.ErrUnconfirmed
	case errors.Is(err, stockgate.ErrDenied):
		return fmt.Errorf("%w: %w: %w", core.ErrUnavailable, core.ErrDenied, err)
	case errors.Is(err, stockgate.ErrUnavailable), errors.Is(err, stockgate.ErrBroken):
		return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	return err
}
