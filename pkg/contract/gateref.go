package contract

import "strconv"

// GateRef names a gate: one bucket of one activity.
type GateRef struct {
	ActivityID string
	Bucket     int
}

// String returns the form "activity:bucket".
func (r GateRef) String() string { return r.ActivityID + ":" + strconv.Itoa(r.Bucket) }
