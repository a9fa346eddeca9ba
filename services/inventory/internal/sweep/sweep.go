// Package sweep repeats what no message repeats: deductions without an order, closings of overdue reservations,
// journal entries that did not land, and unfinished adjustments. One process at a time runs each sweep, only to save
// work. Each sweep is one file, with its settings and ports.
//
// It imports core, ledger, the standard library and the contract only.
package sweep

import (
	"context"
	"slices"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// sweepBatch bounds one query of a sweep.
const sweepBatch = 256

// Config holds the thresholds and pauses of all sweeps.
type Config struct {
	OrdersConfig
	OverdueConfig
	JournalConfig
	AdjustmentsConfig
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		OrdersConfig{RepublishAfter: time.Minute, RepublishCap: 30 * time.Minute, AbandonAfter: 24 * time.Hour},
		OverdueConfig{AskAfter: 10 * time.Minute},
		JournalConfig{RejournalAfter: time.Minute, RejournalCap: 30 * time.Minute},
		AdjustmentsConfig{ResumeAfter: 20 * time.Second},
	}
}

// Recorder logs what the sweeps repeat.
type Recorder interface {
	Info(ctx context.Context, what string, attrs ...any)
}

// Incidents counts rows that cannot be read, and raises incidents about them, for each row once an hour at most.
type Incidents interface {
	RaiseUnreadable(ctx context.Context, broken []ledger.Row)
}

// Closings is the part of core.Service that publishes closings.
type Closings interface {
	PublishClosing(ctx context.Context, c contract.OrderClose, delay time.Duration) error
}

// Holdings is what the sweeps of reservations read in the tables.
type Holdings interface {
	Now(ctx context.Context) (time.Time, error) // the database's clock, by which ages and pauses of rows are decided
	OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error)
	PendingImports(ctx context.Context) (core.PendingImports, error)
	// HoldingActivities lists the activities that have reserved units, without their items.
	HoldingActivities(ctx context.Context) ([]core.Activity, error)
}

// holdingActivities lists the activities that have reserved units, except those that wait for an import: it publishes
// the deductions again that are missing, and a closing might meet an order that a restore has lost.
func holdingActivities(ctx context.Context, from Holdings) ([]core.Activity, error) {
	pending, err := from.PendingImports(ctx)
	if err != nil || pending[core.AllActivities] {
		return nil, err
	}
	holding, err := from.HoldingActivities(ctx)
	return slices.DeleteFunc(holding, func(a core.Activity) bool { return pending.Include(a.ID) }), err
}

func orderSNs(rows []ledger.Row) []string {
	sns := make([]string, len(rows))
	for i, r := range rows {
		sns[i] = r.OrderSN
	}
	return sns
}
