// Package redisless sells without Redis: it watches the gates, moves activities with a degraded sale from their gates
// to the ledger and back, and decides purchases by the ledger alone meanwhile. It imports the standard library, the
// contract, core and ledger only.
package redisless

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Sales keeps the modes of activities, and what sales without Redis need. Every method is one transaction.
type Sales interface {
	// DegradedActivities is that of WatchedSales.
	DegradedActivities(ctx context.Context, now time.Time) ([]core.Activity, error)
	// RedislessSales returns the figures of activities, by activity.
	RedislessSales(ctx context.Context, activityIDs []string) (map[string]core.RedislessSale, error)
	PendingImports(ctx context.Context) (core.PendingImports, error)
	// ChangeMode locks the activity and its stock, and calls fn to change the mode and the figures. It writes both if fn
	// returns true, and returns the activity. A ledger transaction runs before or after the change.
	ChangeMode(
		ctx context.Context, activityID string,
		fn func(a *core.Activity, figures *core.RedislessSale, now time.Time) (bool, error),
	) (*core.Activity, error)
	// LeaseWorker leases or renews a worker id.
	LeaseWorker(ctx context.Context, ids WorkerLeases, r contract.WorkerLease) (contract.LeasedWorker, error)
}

// Rows reads and writes the ledger. Its methods are those of core.Store, gates.Rows and merchants.Reservations.
type Rows interface {
	Now(ctx context.Context) (time.Time, error)
	Ledger(ctx context.Context, activityIDs []string, fn func(tx core.LedgerTx) error) error
	Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error)
	ReservationsOfActivity(
		ctx context.Context, in core.Scope, activityID string, f core.ReservationFilter, p core.Page,
	) ([]ledger.Row, error)
	ChangedReservations(
		ctx context.Context, activityID string, states []ledger.State, since time.Time, afterSN string, limit int,
	) (rows, broken []ledger.Row, next string, err error)
}

// Inventory is the part of core.Service that lands purchases and publishes their deductions.
type Inventory interface {
	LandHandedOver(ctx context.Context, items []contract.Reservation) (rows, landed []ledger.Row, err error)
	PublishDeductions(ctx context.Context, rows []ledger.Row) error
}

// Gates is the part of gates.Syncer that brings the effects into a gate.
type Gates interface {
	Sync(ctx context.Context, rows []ledger.Row) error
	Resync(ctx context.Context, activityID string, since time.Time) error
}

// Recorder records sales without Redis in logs, metrics and traces.
type Recorder interface {
	Span(ctx context.Context, name string, database bool) (context.Context, func(error))
	Landed(ctx context.Context, n int, lag []time.Duration)
	// SoldRedisless counts purchases that the ledger alone has decided, by outcome.
	SoldRedisless(ctx context.Context, results []contract.RedislessResult)
	Info(ctx context.Context, what string, attrs ...any)
	Warn(ctx context.Context, what string, err error)
}

// Incidents raises incidents about conditions that may last, each once an hour at most.
type Incidents interface {
	Raise(ctx context.Context, key, what string, attrs ...any)
}

// Deps are the ports of a Service.
type Deps struct {
	Sales          Sales
	Rows           Rows
	Inventory      Inventory
	Gates          Gates
	Watch          *Watch
	Recorder       Recorder
	Incidents      Incidents
	RepublishAfter time.Duration // as in core.Timing
}

// Service sells without Redis. It is safe for concurrent use.
type Service struct {
	Deps
	deductions laterDeductions
}

// New makes the service.
func New(d Deps) *Service { return &Service{Deps: d, deductions: newLaterDeductions()} }

// WorkerLeases bounds the leases of worker ids.
type WorkerLeases struct {
	First, End int           // ids: First <= id < End
	Term       time.Duration // of a lease
}

// Workers are the worker ids that processes of seckill use while Redis is unavailable. Redis leases the ids below
// them.
func Workers() WorkerLeases {
	return WorkerLeases{First: ordersn.RedisWorkers, End: ordersn.Workers, Term: 3 * time.Second}
}

// LeaseWorker leases a worker id, or renews the lease of one.
func (s *Service) LeaseWorker(ctx context.Context, r contract.WorkerLease) (contract.LeasedWorker, error) {
	if r.Owner == "" || len(r.Owner) > 64 {
		return contract.LeasedWorker{}, contract.InvalidField("owner", "must have 1 to 64 characters")
	}
	return s.Sales.LeaseWorker(ctx, Workers(), r)
}
