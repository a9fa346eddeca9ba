package fairness

import (
	"slices"
	"strings"
)

// Control is one control of the purchase path.
type Control string

// The controls, in the order in which a path request meets them; the last three are decided with a purchase. The path
// bucket of the activity is no control: it protects the gate and is always on, as are the start and the sold-out flag.
const (
	Addresses Control = "rules by address"
	Users     Control = "rules by user, click rule"
	Room      Control = "waiting room"
	Proof     Control = "challenge: proof of work"
	Image     Control = "challenge: image"
	PerUser   Control = "limit for each user"
	KeptVoid  Control = "kept paths are void"
	Reorder   Control = "reorder limit"

	// OpenProof lets every caller replace the image by a proof of work, as a page must that offers it to every human who
	// cannot see images. It is a weakness, not a control, and has a row of its own.
	OpenProof Control = "proof of work open to all"
)

// Controls returns all controls.
func Controls() []Control {
	return []Control{Addresses, Users, Room, Proof, Image, PerUser, KeptVoid, Reorder}
}

// Set is the controls that are on.
type Set []Control

// All returns the set of a sale with all controls. An image replaces the proof of work.
func All() Set { return Set(Controls()).without(Proof) }

func (s Set) has(c Control) bool { return slices.Contains(s, c) }

func (s Set) without(c Control) Set {
	return slices.DeleteFunc(slices.Clone(s), func(x Control) bool { return x == c })
}

func (s Set) with(c Control) Set { return append(slices.Clone(s), c) }

func (s Set) String() string {
	names := make([]string, len(s))
	for i, c := range s {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}
