package stockgate

import (
	"fmt"

	"flashsale.internal/pkg/contract"
)

func validateActivity(activityID string) error {
	if !contract.ValidID(activityID) {
		return fmt.Errorf("stockgate: activity id %q is malformed", activityID)
	}
	return nil
}

// Keys outside any gate.
const (
	keyActivities = "fs:activities" // set of the ids of the activities that have a gate
	keyReady      = "fs:ready"      // present once inventory has filled this Redis
	keyFilling    = "fs:filling"    // random, present since inventory began to fill this Redis
)

// keyOf returns a key of the gate. The hash tag puts all keys of a gate into one Cluster slot.
func keyOf(activityID, name string) string { return "fs:{" + activityID + "}:" + name }

// keysOf returns all keys of the gate in the order in which every script receives them. lua/prelude.lua names them.
func keysOf(activityID string) []string {
	names := [...]string{
		"gate", "buyers", "held", "journal", "unlanded", "ended", "adjusted", "sale", "build", "touched", "counts",
		"building", "journaled",
	}
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = keyOf(activityID, n)
	}
	return keys
}
