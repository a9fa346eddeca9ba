package stockgate

import (
	"fmt"
	"strconv"
	"strings"

	"flashsale.internal/pkg/contract"
)

// Ref names a gate: one bucket of one activity.
type Ref struct {
	ActivityID string
	Bucket     int
}

// String is the form "activity:bucket".
func (r Ref) String() string { return r.ActivityID + ":" + strconv.Itoa(r.Bucket) }

func (r Ref) validate() error {
	if !contract.ValidID(r.ActivityID) {
		return fmt.Errorf("stockgate: activity id %q is malformed", r.ActivityID)
	}
	if r.Bucket < 0 {
		return fmt.Errorf("stockgate: bucket %d is negative", r.Bucket)
	}
	return nil
}

func parseRef(s string) (Ref, bool) {
	activity, bucket, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(bucket)
	r := Ref{ActivityID: activity, Bucket: n}
	return r, ok && err == nil && r.validate() == nil && r.String() == s
}

// Keys outside any gate.
const (
	keyActivities = "fs:activities" // set of Ref.String()
	keyReady      = "fs:ready"      // present once inventory has filled this Redis
)

// key is one key of the gate. The hash tag puts all of them into one Cluster slot.
func (r Ref) key(name string) string { return "fs:{" + r.String() + "}:" + name }

// keys lists all keys of the gate in the order in which every script receives them. lua/prelude.lua names them.
func (r Ref) keys() []string {
	names := [...]string{"gate", "buyers", "held", "journal", "unlanded", "ended", "adjusted", "sale", "build", "touched"}
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = r.key(n)
	}
	return keys
}
