// Package room is the waiting rooms of sales: what Redis keeps of them, the tickets and draws that buyers read, and the
// controller that moves them on. One process at a time, under a lock, computes the draws and admits places. All
// processes only read what it stores.
package room

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
)

// closes is the time before the start at which early joining closes: later tickets take part in no draw.
// pkg/stockgate/lua/room.lua decides by the same value.
const closes = time.Minute

// Errors of a Store.
var (
	// ErrNone means that the activity has no waiting room.
	ErrNone = errors.New("no waiting room")
	// ErrNotOpen means that the room opens later.
	ErrNotOpen = errors.New("waiting room is not open yet")
	// ErrEnded means that the activity has ended.
	ErrEnded = errors.New("activity of the waiting room has ended")
	// ErrNotReady means that the call came too early, for example before the draw.
	ErrNotReady = errors.New("waiting room is not ready for this")
	// ErrFenced means that a later controller admits in this room.
	ErrFenced = errors.New("a later controller admits in this waiting room")
)

// Room is the state of a waiting room at the Redis time Now.
type Room struct {
	Now              time.Time
	StartsAt, EndsAt time.Time
	State            core.State // as the merchant last set it
	Rate             int64      // places admitted a second, at most
	Sequence         int64      // of the last ticket
	Key              draw.Hash
	Closed           bool       // early joining has closed
	Early            int64      // number of early tickets, once Closed
	Root, Seed       *draw.Hash // of the draw; nil until they are stored, Root first
	Beacon           draw.Beacon
	Admitted         int64 // last place that may take paths
	Lapsed           int64 // last place that no longer may
	Admissions       []stockgate.RoomAdmission
}

// place returns the place of a ticket. It is unknown while early joining goes on, and for an early ticket until the draw
// is stored and the sale has started.
func (r *Room) place(sequence int64, now time.Time) (place int64, known bool) {
	if !r.Closed {
		return 0, false
	}
	if sequence > r.Early {
		return sequence, true
	}
	if r.Seed == nil || now.Before(r.StartsAt) {
		return 0, false
	}
	permutation, err := draw.NewPermutation(*r.Seed, r.Early)
	if err != nil {
		return 0, false
	}
	place, err = permutation.Place(sequence)
	return place, err == nil
}

// until returns the time until which an admitted place may take paths, if the sale stays open and Redis reachable: the end
// of the sale at the latest. It is zero while unknown: a place that was admitted without Redis does not lapse.
func (r *Room) until(place int64) time.Time {
	var of *stockgate.RoomAdmission
	for i := range r.Admissions {
		if a := &r.Admissions[i]; a.Last >= place && (of == nil || a.Last < of.Last) {
			of = a
		}
	}
	if of == nil {
		return time.Time{}
	}
	if until := r.Now.Add(of.Left); until.Before(r.EndsAt) {
		return until
	}
	return r.EndsAt
}

// Join is the request of a user for a ticket.
type Join struct {
	UserID     string
	Key        draw.Hash // of the draw, if the room is not open yet
	Nonce      draw.Nonce
	Commitment draw.Hash
	Replace    int64 // sequence number of the user's lapsed ticket; 0 for none
}

// Number is what a ticket is made of: its sequence number and its nonce.
type Number struct {
	Sequence int64
	Nonce    draw.Nonce
}

// Store holds the waiting rooms. Its scripts decide by Redis time.
type Store interface {
	// Join returns the ticket of a user: the one that the user has, or a new one. It waits for a bounded time and may send
	// the calls of many callers together.
	Join(ctx context.Context, activityID string, j Join) (Number, error)
	// Room returns the state of a room. It opens the room, with known.Key, and closes early joining, when that is due. A
	// room that Redis has lost continues with what is known of it.
	Room(ctx context.Context, activityID string, known Room) (Room, error)
	// Commitments returns the commitments of the first n tickets.
	Commitments(ctx context.Context, activityID string, n int64) ([]draw.Hash, error)
	// StoreDraw stores the root over this number of early tickets, and the seed with its beacon once it is not nil, unless
	// the room has them.
	StoreDraw(
		ctx context.Context, activityID string, root draw.Hash, seed *draw.Hash, beacon draw.Beacon, early int64,
	) (Room, error)
	// Admit raises the last admitted place, if it still is from. fence is the controller's fencing number.
	Admit(ctx context.Context, activityID string, fence, from, to int64) (Room, error)
}
