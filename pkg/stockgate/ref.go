package stockgate

import (
	"fmt"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
)

func validateRef(r contract.GateRef) error {
	if !contract.ValidID(r.ActivityID) {
		return fmt.Errorf("stockgate: activity id %q is malformed", r.ActivityID)
	}
	if r.Bucket < 0 {
		return fmt.Errorf("stockgate: bucket %d is negative", r.Bucket)
	}
	return nil
}

func parseRef(s string) (contract.GateRef, bool) {
	activity, bucket, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(bucket)
	r := contract.GateRef{ActivityID: activity, Bucket: n}
	return r, ok && err == nil && validateRef(r) == nil && r.String() == s
}

// Keys outside any gate.
const (
	keyActivities = "fs:activities" // set of GateRef.String()
	keyReady      = "fs:ready"      // present once inventory has filled this Redis
	keyFilling    = "fs:filling"    // random, present since inventory began to fill this Redis
)

// keyOf returns a key of the gate. The hash tag puts all keys of a gate into one Cluster slot.
func keyOf(r contract.GateRef, name string) string { return "fs:{" + r.String() + "}:" + name }

// keysOf returns all keys of the gate in the order in which every script receives them. lua/prelude.lua names them.
func keysOf(r contract.GateRef) []string {
	names := [...]string{
		"gate", "buyers", "held", "journal", "unlanded", "ended", "adjusted", "sale", "build", "touched", "counts",
		"building", "journaled",
	}
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = keyOf(r, n)
	}
	return keys
}
