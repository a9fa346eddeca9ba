// Package merchants serves merchants and operators: products, activities, adjustments, the views of orders and stock,
// the review of suspicious buyers, refunds and history. It imports the standard library, the contract, core and ledger
// only.
package merchants

import (
	"context"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/ledger"
)

// Activities keeps activities. Every method is one transaction.
type Activities interface {
	Now(ctx context.Context) (time.Time, error)                                     // the database's clock
	Activity(ctx context.Context, in core.Scope, id string) (*core.Activity, error) // nil when the scope has none
	// Activities returns activities, with their phases at the time now.
	Activities(ctx context.Context, in core.Scope, f ActivityFilter, now time.Time, p core.Page) ([]core.Activity, error)
	// CreateActivity writes the change too, and the key if it is not nil. If the key is known, it writes nothing and
	// returns the activity that was made with it, which may be deleted. Otherwise it calls check first, which may refuse.
	CreateActivity(
		ctx context.Context, key *core.IdempotencyKey, a core.Activity, c core.Change, check func() error,
	) (string, error)
	// ChangeActivity locks the activity's row and calls fn to change it. Then it writes the row, the items if they
	// were replaced, and the change. If fn returns false, it writes nothing. growth counts the merchant's activities
	// that are published or paused and have not ended at the time of the change. It refuses with not_found if the
	// scope has no such activity.
	ChangeActivity(
		ctx context.Context, in core.Scope, id string, c core.Change, growth Growth, fn func(a *core.Activity) (bool, error),
	) (*core.Activity, error)
	// DeleteActivity locks the activity's row, calls check, which may refuse, and deletes the activity with its items. The
	// change keeps its title. It refuses with not_found if the scope has no such activity.
	DeleteActivity(ctx context.Context, in core.Scope, id string, c core.Change, check func(a *core.Activity) error) error
	// BeginAdjustment writes the intent and the Idempotency-Key, if check allows it. If the key is known, it returns
	// the adjustment that was made with it. It refuses with not_found if the scope has no such activity, also when the
	// key is known.
	BeginAdjustment(
		ctx context.Context, in core.Scope, k core.IdempotencyKey, a core.Adjustment, c core.Change,
		check func(*core.Activity) error,
	) (*core.Adjustment, error)
}

// Products keeps products. Every method is one transaction.
type Products interface {
	SKUs(ctx context.Context, in core.Scope, ids []string) (map[string]SKU, error)
	// CreateProduct and ChangeProduct write the change too. growth counts the merchant's SKUs. CreateProduct writes the
	// key if it is not nil; if the key is known, it only returns the product that was made with it.
	CreateProduct(ctx context.Context, key *core.IdempotencyKey, p Product, c core.Change, growth Growth) (*Product, error)
	Product(ctx context.Context, in core.Scope, id string) (*Product, error)       // nil when the scope has none
	ProductByRef(ctx context.Context, in core.Scope, ref string) (*Product, error) // nil when the scope has none
	Products(ctx context.Context, in core.Scope, f ProductFilter, p core.Page) ([]Product, error)
	// ChangeProduct locks the product's row and calls fn to change it. If fn returns false, it writes nothing. Both
	// refuse with state_conflict if another product or SKU of the merchant has a ref of this one.
	ChangeProduct(
		ctx context.Context, in core.Scope, id string, c core.Change, growth Growth, fn func(p *Product) (bool, error),
	) (*Product, error)
}

// Reservations reads the ledger.
type Reservations interface {
	Reservations(ctx context.Context, orderSNs []string) (map[string]ledger.Row, error)
	// ReservationsOfActivity returns reservations, newest first.
	ReservationsOfActivity(
		ctx context.Context, in core.Scope, activityID string, f core.ReservationFilter, p core.Page,
	) ([]ledger.Row, error)
	CountReservations(ctx context.Context, in core.Scope, activityID string) (ReservationCounts, error)
	// EndedHolds returns the users with at least so many reservations that expired or were cancelled, those with most
	// first. It reads one row for each released reservation of the activity.
	EndedHolds(ctx context.Context, activityID string, least int64, limit int) ([]EndedHolds, error)
	PurchasesOf(ctx context.Context, activityID string, userIDs []string) (map[string]int64, error) // that hold units
	// HoldingReservations returns the reservations of these users that hold units, newest first.
	HoldingReservations(ctx context.Context, activityID string, userIDs []string, p core.Page) ([]ledger.Row, error)
}

// History keeps the change log, and reads what was done to an activity, newest first. Changes are those of merchants
// and operators; reconciliations have repairs, or were requested.
type History interface {
	ChangesOfActivity(ctx context.Context, in core.Scope, activityID string, p core.Page) ([]core.PastChange, error)
	ReconciliationsOfActivity(
		ctx context.Context, in core.Scope, activityID string, p core.Page,
	) ([]core.PastChange, error)
	AdjustmentsOfActivity(ctx context.Context, in core.Scope, activityID string, p core.Page) ([]core.Adjustment, error)
	ChangesOfLimit(ctx context.Context, name string, p core.Page) ([]core.PastChange, error)
	// ChangesOfOrder returns the latest decisions about a purchase of an activity, at most limit: its cancellations, and
	// those about its dead letters.
	ChangesOfOrder(
		ctx context.Context, in core.Scope, activityID, orderSN string, limit int,
	) ([]core.PastChange, error)
	Record(ctx context.Context, c core.Change) error
}

// Counts reads what gates have counted: units, and refused requests.
type Counts interface {
	Audit(ctx context.Context, activityID string) (core.GateAudit, error)
	RefusedRequests(ctx context.Context, activityID string) (RefusedRequests, error)
}

// Gates is the part of gates.Syncer that writes merchants' changes into the gates.
type Gates interface {
	Sync(ctx context.Context, rows []ledger.Row) error
	SyncActivity(ctx context.Context, a *core.Activity) error
	IsDue(ctx context.Context, a *core.Activity) (bool, error)
	ResumeAdjustment(ctx context.Context, a core.Adjustment) (*core.Adjustment, error)
}

// Ledger is the part of core.Service that closes orders.
type Ledger interface {
	CloseOrders(
		ctx context.Context, request contract.OrderClose, reason, tombstoneReason string,
	) ([]core.CloseOutcome, error)
}

// Orders is the order service.
type Orders interface {
	Refund(ctx context.Context, orderSNs []string, reason string) (map[string]string, error)
	// Lookup returns the orders that exist, at most contract.MaxItems in a call.
	Lookup(ctx context.Context, orderSNs []string) (map[string]OrderDetails, error)
	// Show returns all that is stored about an order, nil if there is none.
	Show(ctx context.Context, orderSN string) (*StoredOrder, error)
}

// Recorder logs what a view lacks.
type Recorder interface {
	Warn(ctx context.Context, what string, err error)
}

// Deps are the ports and settings of a Service.
type Deps struct {
	Activities Activities
	Products   Products
	Rows       Reservations
	Changed    ChangedRows
	History    History
	Gate       Counts
	Gates      Gates
	Ledger     Ledger
	Guard      core.Guard
	Orders     Orders
	Refunds    Refunds
	Overview   Overview
	Profiles   Profiles
	Recorder   Recorder
	Now        func() time.Time // clock of the process; see Service.clock
	Pause      time.Duration    // first pause between attempts of a call to the order service
	Quotas     Quotas
	Payments   Payments
}

// Service serves merchants and operators. It is safe for concurrent use.
type Service struct {
	Deps
	// clock decides how long a process keeps what it has read, and stamps records. Everything else is decided by
	// Activities.Now.
	clock    func() time.Time
	counts   restCache[counted, ReservationCounts]
	suspects restCache[string, Suspects] // by activity
}

// New makes the service.
func New(d Deps) *Service { return &Service{Deps: d, clock: core.TableTime(d.Now)} }

// LimitRecord is what the change log keeps of a change of a limit: the rule in force before and after it, null if there
// is none. The name comes first in its JSON: History finds it there.
type LimitRecord struct {
	Name   string `json:"name"`
	Before any    `json:"before"`
	After  any    `json:"after"`
}

// RecordLimit records the change of a limit, before it is made.
func (s *Service) RecordLimit(ctx context.Context, who, action string, change LimitRecord) error {
	return s.History.Record(ctx, core.Change{
		At: s.clock(), Who: who, Role: core.RoleOperator, Action: action, Object: "limit", Detail: change,
	})
}

// Payments describes the payment providers to publishing.
type Payments struct {
	Stripe bool  // Stripe is one of them
	Rate   int64 // payments that begin in a second, from all buyers; 0: no limit
}

// check refuses an activity with a price that a provider cannot take.
func (p Payments) check(a *core.Activity) error {
	for i, it := range a.Items {
		if !p.Stripe {
			return nil
		}
		if _, err := contract.ToStripe(it.Price, a.Currency); err != nil {
			return contract.InvalidField(fmt.Sprintf("items[%d].price", i), err.Error())
		}
	}
	return nil
}

// Take returns the seconds in which a payment for each unit begins, nil without a limit.
func (p Payments) Take(units int64) *int64 {
	if p.Rate == 0 {
		return nil
	}
	seconds := (units + p.Rate - 1) / p.Rate
	return &seconds
}

// Quotas bound what each merchant may have.
type Quotas struct {
	Activities int64 // scheduled, open or paused activities; drafts and ended ones do not count
	SKUs       int64
}

// Growth is how many objects a change adds to what a quota counts. The store counts the objects of their merchant
// under a lock of that merchant and calls Check before it commits.
type Growth struct {
	what       string
	adds, most int64
}

// Adds reports whether the change adds anything. If it does not, no quota applies.
func (g Growth) Adds() bool { return g.adds > 0 }

// Check refuses with quota_exceeded if the merchant, who has used objects, would have more than the quota allows.
func (g Growth) Check(used int64) error {
	if used+g.adds <= g.most {
		return nil
	}
	return contract.Refuse(contract.CodeQuotaExceeded, fmt.Sprintf("a merchant may have %d %s", g.most, g.what)).
		With("limit", g.most).With("used", used)
}

// moreActivities is the growth by one published activity.
func (q Quotas) moreActivities() Growth {
	return Growth{"scheduled, open or paused activities", 1, q.Activities}
}

// moreSKUs is the growth by n SKUs.
func (q Quotas) moreSKUs(n int) Growth { return Growth{"SKUs", int64(n), q.SKUs} }
