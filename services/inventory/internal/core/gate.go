package core

import (
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// Errors of the gate port. Its adapter maps all errors of the gate to these.
var (
	ErrNoGate           = errors.New("the gate is absent")
	ErrGateUnavailable  = errors.New("the gate cannot be reached; the outcome is unknown")
	ErrGateVersion      = errors.New("the gate has a newer version")
	ErrGateInsufficient = errors.New("the gate has too few units left")
	ErrGateDecided      = errors.New("the gate has another decision about the adjustment")
	ErrGateLive         = errors.New("the gate is live already")
	// ErrBuildSuperseded means that another build of the gate began, or that Redis lost a part of this one. It is an
	// ErrGateUnavailable.
	ErrBuildSuperseded = fmt.Errorf("%w: the build was superseded", ErrGateUnavailable)
	// ErrBuildDiffers means that the rows that were put have other units than the stock. The build may go on.
	ErrBuildDiffers = errors.New("the rows do not add up to the stock")
	// ErrGateBroken means that the gate responded with an error that no retry can cure. An operator has to repair the
	// gate or the tables.
	ErrGateBroken = errors.New("the gate is broken")
)

// GateConfig is the part of an activity that the gate enforces.
type GateConfig struct {
	State            ActivityState
	StartsAt, EndsAt time.Time
	PerUserLimit     int64
	RoomRate         int64
	Challenge        contract.Challenge
	ReorderLimit     int64 // in an audit -1 if the gate has lost it
	Version          int64
}

// GateStock holds the counters of one SKU in the gate, in units. Journal and InFlight are the shares of Held that have
// not landed: in the journal, and published.
type GateStock struct{ Left, Held, Sold, Total, Journal, InFlight int64 }

// GateAudit is the configuration and the counters of a gate.
type GateAudit struct {
	Config     GateConfig
	SKUs       map[string]GateStock
	Revision   GateRevision
	Held       int64    // units held in all
	Incomplete []string // SKUs without a counter of the units left
	Epoch      string   // "" while an import is to follow
	Importing  bool     // the gate sells nothing until the import is complete
	Trimmed    int64    // purchases that ended and whose entries were removed

	// Numbers of entries. They are 0 in an audit that a collection of changes returns.
	Entries  int64 // all
	Unlanded int64 // queued, and not known to have a row
	Ended    int64 // terminal
}

// GateRevision identifies the build of a gate and the last correction of its counters at the time of a reading.
type GateRevision struct {
	Build       string // of the build that made the gate
	Corrections int64  // how often its counters were corrected
}

// GateEntry is an entry of the gate.
type GateEntry struct {
	OrderSN, UserID string
	Lines           []contract.Line
	JournaledAt     time.Time // of unlanded entries only
}

// KnownAdjustment is an adjustment that a gate has. Without a SKU it has no further effect.
type KnownAdjustment struct {
	ID, SKUID string
	Delta     int64 // units
}
