package core

import (
	"context"
	"time"
)

// Epoch identifies one history of the database. Gates carry it. After a restore of the database its history is another
// one, so another epoch is drawn: by an operator, or by the reconciler when it proves that a gate has more.
type Epoch struct {
	Number  int64 // the highest is the present one
	Value   string
	Since   time.Time // from when on orders are imported; zero for the first epoch, which imports nothing
	Cause   string
	DrawnAt time.Time
}

// Causes of epochs. Operators give their own.
const (
	CauseOperator = "an operator has drawn it"
	CauseProof    = "a gate has what this database does not have"
	CauseGate     = "a gate has an epoch that this database does not have"
)

// ImportStep is a step of an import. The decisions on each activity come first, then the orders of all activities, then
// the rest of each activity by itself.
type ImportStep string

// The steps. All but the first four, which concern the orders of all activities, belong to one activity.
const (
	ImportEnded   ImportStep = "ended"   // closed and refunded orders release their rows
	ImportEnds    ImportStep = "ends"    // purchases that ended in a gate end in the ledger
	ImportPaid    ImportStep = "paid"    // paid orders get their rows
	ImportPending ImportStep = "pending" // unpaid orders get their rows

	ImportDecisions ImportStep = "decisions" // what merchants decided and only the gate has is taken over

	ImportRows    ImportStep = "rows"    // rows without an order get one
	ImportEntries ImportStep = "entries" // purchases that only the gate has are journaled again
	ImportWait    ImportStep = "wait"    // until they have landed, or were refused
	ImportLanded  ImportStep = "landed"  // as rows, once more: events of lost orders may have reached rows that have landed
	ImportGate    ImportStep = "gate"    // the entries of the gate follow the ledger
	ImportRenew   ImportStep = "renew"   // the gate gets the figures and the epoch
	ImportForeign ImportStep = "foreign" // of an activity that the database does not have: its purchases end

	ImportDone ImportStep = "done"
)

// AllActivities is the activity id of the import of all orders.
const AllActivities = "0"

// Import is the progress of one import: of the orders of all activities (AllActivities), or of one activity.
type Import struct {
	Epoch      int64 // Epoch.Number
	ActivityID string
	Step       ImportStep
	Position   string // where the step goes on
	Counts     ImportCounts
	UpdatedAt  time.Time
}

// ImportCounts is the report of an import. A step that is killed and repeated may count some items twice.
type ImportCounts struct {
	Released    int64 `json:"released,omitempty"`     // rows that closed and refunded orders released
	Ended       int64 `json:"ended,omitempty"`        // purchases that had ended in their gate: their rows end
	Paid        int64 `json:"paid,omitempty"`         // rows of paid orders, written or raised
	Pending     int64 `json:"pending,omitempty"`      // rows of unpaid orders, written or raised
	Closed      int64 `json:"closed,omitempty"`       // orders that were closed: no unit is left for them
	Refunded    int64 `json:"refunded,omitempty"`     // orders that were refunded: no unit is left for them
	Foreign     int64 `json:"foreign,omitempty"`      // orders of unknown activities, closed or refunded
	Republished int64 `json:"republished,omitempty"`  // rows without an order, whose deduction was published again
	Journaled   int64 `json:"journaled,omitempty"`    // purchases of the gate that were journaled again
	Unreadable  int64 `json:"unreadable,omitempty"`   // entries that ended as failed(system)
	SetAside    int64 `json:"set_aside,omitempty"`    // orders and rows that contradict or cannot be read
	Adjustments int64 `json:"adjustments,omitempty"`  // adjustments that only the gate had; see the findings
	Ahead       int64 `json:"gate_ahead,omitempty"`   // entries that keep a status above that of their row
	Corrected   int64 `json:"gate_changed,omitempty"` // entries that followed the ledger
}

// SumOfImports adds up the counts of imports.
func SumOfImports(imports []Import) (sum ImportCounts) {
	for _, i := range imports {
		c := i.Counts
		sum.Released += c.Released
		sum.Ended += c.Ended
		sum.Paid += c.Paid
		sum.Pending += c.Pending
		sum.Closed += c.Closed
		sum.Refunded += c.Refunded
		sum.Foreign += c.Foreign
		sum.Republished += c.Republished
		sum.Journaled += c.Journaled
		sum.Unreadable += c.Unreadable
		sum.SetAside += c.SetAside
		sum.Adjustments += c.Adjustments
		sum.Ahead += c.Ahead
		sum.Corrected += c.Corrected
	}
	return sum
}

// Finding is something for the operator, from an import.
type Finding struct {
	Epoch      int64
	ActivityID string
	Kind       string
	Subject    string // order_sn, or id of an adjustment
	Detail     string
	At         time.Time
}

// Kinds of findings.
const (
	FindingForeign    = "unknown_activity" // order or purchase of an activity that the database does not have
	FindingNoUnit     = "no_unit"          // order that was closed or refunded
	FindingConflict   = "conflict"         // order whose order_sn is another purchase in the ledger
	FindingUnreadable = "unreadable"       // entry or row that cannot be read
	FindingAdjustment = "lost_adjustment"  // adjustment that only the gate had
	FindingDecision   = "decision"         // version of the activity that only the gate had; it was taken over
	FindingDamage     = "damaged_decision" // as FindingDecision, but no merchant can have: the database's stays
	FindingAhead      = "gate_ahead"       // entry with a status above that of its row
)

// DrawEpoch draws a new epoch, for the reconciler and the gate controller. instead is the epoch that the caller saw.
func (s *Service) DrawEpoch(ctx context.Context, instead, cause string) error {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return err
	}
	since, err := s.Store.StartOfOldest(ctx, now)
	if err != nil {
		return err
	}
	e, err := s.Store.DrawEpoch(ctx, since, cause, instead, now)
	if err != nil {
		return err
	}
	s.Recorder.Incident(ctx, "a new epoch of the database: gates sell nothing until their import is complete", "cause", e.Cause,
		"since", e.Since)
	return nil
}
