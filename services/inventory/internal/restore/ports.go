// Package restore brings back into the ledger what the order service and the gates have, after inventory's database or
// that of the order service was restored from a backup. It works through core, and defines the ports that it needs.
package restore

import (
	"context"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Epochs keeps epochs, imports and findings. Every method is one transaction.
type Epochs interface {
	PresentEpoch(ctx context.Context) (core.Epoch, error)
	PendingImports(ctx context.Context) (core.PendingImports, error)
	Imports(ctx context.Context, epoch int64) ([]core.Import, error)
	// MoveImport replaces from by to. It returns false if another process has moved it meanwhile.
	MoveImport(ctx context.Context, from, to core.Import) (bool, error)
	// AddImport adds an import; it changes nothing if the activity has one.
	AddImport(ctx context.Context, i core.Import) error
	// AddFindings ignores those that it has.
	AddFindings(ctx context.Context, list []core.Finding) error
	// KnownAdjustments returns which of these ids the database has.
	KnownAdjustments(ctx context.Context, ids []string) (map[string]bool, error)
	// ActivityDrafts returns the ids of these activities that exist, and whether each is a draft.
	ActivityDrafts(ctx context.Context, ids []string) (map[string]bool, error)
}

// Tables reads and writes rows and activities.
type Tables interface {
	Now(ctx context.Context) (time.Time, error)
	Ledger(ctx context.Context, activityIDs []string, fn func(tx core.LedgerTx) error) error
	// ReadableReservations returns rows without those whose lines cannot be read, which are in broken.
	ReadableReservations(
		ctx context.Context, orderSNs []string,
	) (rows map[string]ledger.Row, broken []ledger.Row, err error)
	ChangedReservations(
		ctx context.Context, activityID string, states []ledger.State, since time.Time, afterSN string, limit int,
	) (rows, broken []ledger.Row, next string, err error)
	OpenDeadLetters(ctx context.Context, orderSNs []string) (map[string]bool, error)
	AnyActivity(ctx context.Context, id string) (*core.Activity, error)
	// TakeDecision makes an activity what its gate has, as core.Activity.TakeDecision, and records the change.
	TakeDecision(ctx context.Context, gate core.GateConfig, c core.Change) error
	DatedActivity(ctx context.Context, id string) (*core.Activity, time.Time, error)
}

// Entries reads and changes the entries of a gate. Every call may be repeated.
type Entries interface {
	// Survey pages through all entries; next is 0 after the last page. build identifies the build of the gate.
	Survey(
		ctx context.Context, activityID string, cursor uint64,
	) (page []ledger.StoredEntry, build string, next uint64, err error)
	// Repair rewrites entries that still are as they were read. It returns which of them it changed.
	Repair(ctx context.Context, activityID, build string, list []ledger.EntryRepair) (map[string]bool, error)
	Release(ctx context.Context, activityID string, e []ledger.Entry) error // of purchases that had an order
	Drop(ctx context.Context, activityID string, e []ledger.Entry) error    // of purchases that never had one
	// RejournalHolding journals entries again that hold units, whatever their stage, unless they still are journaled. The
	// status that buyers read does not change.
	RejournalHolding(ctx context.Context, activityID string, orderSNs []string) (int, error)
}

// Renewals renews gates, or ends their sales. Every call may be repeated.
type Renewals interface {
	Registered(ctx context.Context) ([]string, error)
	Audit(ctx context.Context, activityID string) (core.GateAudit, error)
	// AdjustmentsOfGate pages through the adjustments that the gate has; next is 0 after the last page.
	AdjustmentsOfGate(
		ctx context.Context, activityID string, cursor uint64,
	) (page []core.KnownAdjustment, next uint64, err error)
	// RenewEpoch sets configuration, totals and adjustments to those of the tables, the units left to what follows from
	// them, and the epoch. The caller holds the locks of the activity's stock.
	RenewEpoch(ctx context.Context, activityID, epoch string, a core.Activity, adjusted []string) error
	// ReplaceSale writes the sale document, also in place of one of a later version.
	ReplaceSale(ctx context.Context, a core.Activity) error
	// EndSale ends the sale of a gate whose activity the tables do not have, in the gate and in the document.
	EndSale(ctx context.Context, activityID string) error
}

// Orders lists the orders of the order service.
type Orders interface {
	// States returns the state of each order: pending, paid, closed, refunded, core.OutcomeUnknown, or
	// core.OrderTombstone. At most contract.MaxItems in a call.
	States(ctx context.Context, orderSNs []string) (map[string]string, error)
	// Changed returns a page of the orders whose state changed since a time. It starts with the cursor "" and is
	// complete once next is "". An order that changes meanwhile may be missing.
	Changed(ctx context.Context, since time.Time, cursor string) (page []core.ChangedOrder, next string, err error)
}

// Gates is the part of gates.Syncer that an import needs.
type Gates interface {
	Due(ctx context.Context, activityID string) (bool, error)
	Fill(ctx context.Context, activityID string) error
	Sync(ctx context.Context, rows []ledger.Row) error
	SettleAll(ctx context.Context, activityID string) error
}

// Inventory is the part of core.Service that an import needs.
type Inventory interface {
	CloseOrders(
		ctx context.Context, request contract.OrderClose, reason, tombstoneReason string,
	) ([]core.CloseOutcome, error)
	RequestClose(ctx context.Context, sns []string, reason string) ([]core.CloseOutcome, error)
	RefundUnreserved(ctx context.Context, orderSNs []string) error
	PublishAgain(ctx context.Context, a *core.Activity, asOf time.Time, rows []ledger.Row) error
}

// Recorder logs what an import did.
type Recorder interface {
	Incident(ctx context.Context, what string, attrs ...any)
	Info(ctx context.Context, what string, attrs ...any)
}

// Incidents counts rows that cannot be read, and raises incidents about them.
type Incidents interface {
	RaiseUnreadable(ctx context.Context, broken []ledger.Row)
}

// Deps are the ports of an Importer, and the clock of the process.
type Deps struct {
	Epochs    Epochs
	Tables    Tables
	Entries   Entries
	Gate      Renewals
	Orders    Orders
	Gates     Gates
	Inventory Inventory
	Recorder  Recorder
	Incidents Incidents
	Now       func() time.Time
}
