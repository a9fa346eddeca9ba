package reconcile

import (
	"maps"
	"slices"
	"time"

	"flashsale.internal/services/inventory/internal/ledger"
)

// Result is the result of one reconciliation of an activity.
type Result struct {
	ComparedAt  time.Time // when the last comparison began
	Repairs     []Repair
	Differences []Difference // what the last comparison found and did not repair
}

// The kinds of repairs besides those of entries.
const (
	RepairBuyers     ledger.RepairKind = "buyers"     // a buyer's record or an index did not match the entries
	RepairCounters   ledger.RepairKind = "counters"   // counters did not match the entries
	RepairAdjustment ledger.RepairKind = "adjustment" // the gate lacked an adjustment
	RepairConfigured ledger.RepairKind = "configured" // state, window or limit differed
	RepairRebuilt    ledger.RepairKind = "rebuilt"    // the gate was absent
	RepairAllowance  ledger.RepairKind = "allowance"  // an allowance did not match the ledger
)

var repairReasons = map[ledger.RepairKind]string{
	ledger.RepairAdopted:   "the ledger holds it and the gate had no entry",
	ledger.RepairSettled:   "the gate's entry was behind the ledger",
	ledger.RepairReleased:  "the gate held units of a purchase that ended",
	ledger.RepairForgotten: "the gate had no entry of a purchase that ended",
	ledger.RepairCorrected: "buyer or lines differed from the ledger",
	ledger.RepairOverruled: "the gate's entry was ahead of the ledger",
	ledger.RepairRewritten: "the gate's entry could not be read",
	ledger.RepairRemoved:   "the gate's entry could not be read and the ledger has none",
	RepairBuyers:           "a buyer's record or an index did not match the gate's entries",
	RepairCounters:         "the gate's counters did not match its entries",
	RepairAdjustment:       "the gate lacked an adjustment",
	RepairConfigured:       "the gate's state, window or limit differed from the activity's",
	RepairRebuilt:          "the gate was absent",
	RepairAllowance:        "the allowance did not match the ledger",
}

// RepairKinds returns all kinds of repairs.
func RepairKinds() []ledger.RepairKind { return slices.Sorted(maps.Keys(repairReasons)) }

// Repair is one thing that was repaired.
type Repair struct {
	Kind        ledger.RepairKind
	OrderSN     string     // of a repaired purchase
	UserID      string     // of a repaired allowance, for the change log only
	Deltas      []SKUDelta // what the repair changed about the units left in the gate
	Traceparent string     // of the purchase
}

// SKUDelta is a change of the units left. SKUID is empty if a repair concerns no SKU.
type SKUDelta struct {
	SKUID string
	Delta int64
}

// Why returns what was wrong, for an operator.
func (r Repair) Why() string { return repairReasons[r.Kind] }

// Difference is something wrong that a comparison found and did not repair.
type Difference struct {
	OrderSN string
	SKUID   string
	// Delta is the number of units that the gate has too few (negative: too many), as far as that is known. If stock and
	// ledger of the SKU differ, it is the number of units by which the stock row exceeds the ledger rows.
	Delta int64
	Why   string
}
