package fairness

import (
	"math/rand/v2"
	"time"

	"flashsale.internal/pkg/draw"
)

// room is the waiting room of docs/room.md: early tickets have the places of the draw, later ones follow in order, and
// admitted rises at the configured rate from the start on.
type room struct {
	every    time.Duration // between two admitted places
	sequence int64
	early    int64
	drawn    draw.Permutation
	seed     draw.Hash
	last     time.Duration // when the last place of a late ticket is admitted
}

func newRoom(perSecond int, random *rand.Rand) *room {
	r := &room{every: time.Second / time.Duration(perSecond), early: -1}
	// The seed of a real draw is computed from the key, the root and the beacon. All of them are random here.
	var key, root draw.Hash
	for i := range key {
		key[i], root[i] = byte(random.Uint32()), byte(random.Uint32())
	}
	r.seed = draw.Seed(key, root, nil)
	return r
}

// join returns the sequence number of a new ticket.
func (r *room) join() int64 {
	r.sequence++
	return r.sequence
}

// close ends early joining.
func (r *room) close() error {
	r.early = r.sequence
	var err error
	if r.early > 0 {
		r.drawn, err = draw.NewPermutation(r.seed, r.early)
	}
	return err
}

// admission returns the time at which a ticket is admitted. Tickets after the early ones are passed in their order.
func (r *room) admission(sequence int64, now time.Duration) time.Duration {
	if sequence <= r.early {
		place, err := r.drawn.Place(sequence)
		if err != nil {
			panic(err) // unreachable: the sequence number is 1 to early
		}
		return time.Duration(place) * r.every
	}
	r.last = max(r.last, time.Duration(r.early)*r.every, now) + r.every
	return r.last
}
