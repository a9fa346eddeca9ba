package stockgate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// Errors of the calls of a waiting room.
var (
	// ErrNoRoom means that the activity has no waiting room.
	ErrNoRoom = errors.New("stockgate: no waiting room")
	// ErrRoomNotOpen means that the waiting room opens later.
	ErrRoomNotOpen = errors.New("stockgate: the waiting room is not open yet")
	// ErrRoomEnded means that the activity has ended.
	ErrRoomEnded = errors.New("stockgate: the activity of the waiting room has ended")
	// ErrRoomNotReady means that the call came too early: before early joining closed, the draw was stored or the sale
	// started.
	ErrRoomNotReady = errors.New("stockgate: the waiting room is not ready for this")
	// ErrFenced means that a controller with a higher fencing number has called.
	ErrFenced = errors.New("stockgate: a later controller admits in this waiting room")
)

// A room opens RoomOpens before the start of its activity; tickets taken until RoomCloses before the start take part in
// the draw. A place that was admitted may take paths for AdmittedFor. lua/room.lua has the same values.
const (
	RoomOpens   = 10 * time.Minute
	RoomCloses  = time.Minute
	AdmittedFor = time.Minute
)

// MaxRoomGroup bounds the buyers of one JoinRoom.
const MaxRoomGroup = 128

// CommitmentBytes is the length of the commitment of a ticket.
const CommitmentBytes = 32

// Room is the state of a waiting room at the Redis time Now. Hashes and the beacon are hexadecimal texts, "" while
// unknown.
type Room struct {
	Now              time.Time
	State            GateState
	StartsAt, EndsAt time.Time
	Rate             int64 // places admitted a second, at most
	Sequence         int64 // of the last ticket
	Key              string
	Closed           bool  // early joining has closed, so Early is known
	Early            int64 // number of early tickets
	Root             string
	Beacon           string
	Seed             string
	Admitted         int64           // last place that may take paths
	Lapsed           int64           // last place that no longer may
	Admissions       []RoomAdmission // of the latest AdmittedFor, one a second, and one before; in no order
}

// RoomAdmission is how long the places up to Last, after those of the admission before, may take paths yet.
type RoomAdmission struct {
	Last int64
	Left time.Duration // while the sale is open and Redis is reachable; at most 0 once they have lapsed
}

// RoomJoin is the request of a buyer for a ticket.
type RoomJoin struct {
	UserID     string
	Nonce      string // of a new ticket: 1 to 64 characters of a-z 0-9 _ and -
	Commitment [CommitmentBytes]byte
	Replace    int64 // sequence number of the buyer's ticket that a new one replaces; 0 for none
}

// RoomTicket is the ticket of a buyer in a waiting room.
type RoomTicket struct {
	Sequence int64
	Nonce    string
}

func roomKeys(activityID string) []string {
	return append(keysOf(activityID), keyOf(activityID, "room"), keyOf(activityID, "tickets"),
		keyOf(activityID, "leaves"), keyOf(activityID, "admissions"))
}

// runRoom runs a script of the waiting room.
func (g *Gate) runRoom(ctx context.Context, s *script, activityID string, args ...any) ([]string, error) {
	if err := validateActivity(activityID); err != nil {
		return nil, err
	}
	reply, err := g.runWith(ctx, s, roomKeys(activityID), args...)
	if err != nil {
		return nil, err
	}
	return stringList(s, reply)
}

// JoinRoom returns the tickets of a group of at most MaxRoomGroup buyers, in their order: the ticket that a buyer has, or
// else a new one. Sequence numbers begin at 1 and have no gaps. key is the key of the draw for a room that is not open
// yet. One script call, O(buyers).
func (g *Gate) JoinRoom(ctx context.Context, activityID, key string, joins []RoomJoin) ([]RoomTicket, error) {
	if len(joins) == 0 {
		return nil, nil
	}
	if len(joins) > MaxRoomGroup {
		return nil, fmt.Errorf("stockgate: %d buyers join in one group, at most %d are allowed", len(joins), MaxRoomGroup)
	}
	if !validToken(key, maxRoomText) {
		return nil, fmt.Errorf("stockgate: key of a draw is malformed")
	}
	args := append(make([]any, 0, 1+4*len(joins)), key)
	for _, j := range joins {
		if !contract.ValidUserID(j.UserID) || !validToken(j.Nonce, maxAdjustmentID) {
			return nil, fmt.Errorf("stockgate: user id or nonce is malformed")
		}
		replace := ""
		if j.Replace > 0 {
			replace = strconv.FormatInt(j.Replace, 10)
		}
		args = append(args, j.UserID, j.Nonce, j.Commitment[:], replace)
	}
	reply, err := g.runRoom(ctx, scriptRoomJoin, activityID, args...)
	if err != nil {
		return nil, err
	}
	if len(reply) != len(joins) {
		return nil, fmt.Errorf("stockgate: %d tickets for %d buyers", len(reply), len(joins))
	}
	tickets := make([]RoomTicket, len(reply))
	for i, r := range reply {
		sequence, nonce, _ := strings.Cut(r, "|")
		tickets[i].Nonce = nonce
		if tickets[i].Sequence, err = strconv.ParseInt(sequence, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: ticket %q", ErrBroken, r)
		}
	}
	return tickets, nil
}

// Room returns the state of a waiting room. It opens the room, with known.Key, and closes early joining, when that is
// due. known is what the caller has read before, with a new key if it has read none: a room that Redis has lost
// continues with it, except that a root that was published meanwhile stays. One script call, O(admissions).
func (g *Gate) Room(ctx context.Context, activityID string, known Room) (Room, error) {
	if !validToken(known.Key, maxRoomText) {
		return Room{}, fmt.Errorf("stockgate: key of a draw is malformed")
	}
	early := ""
	if known.Closed {
		early = strconv.FormatInt(known.Early, 10)
	}
	reply, err := g.runRoom(ctx, scriptRoomState, activityID, known.Key, early, known.Root, known.Beacon, known.Seed,
		known.Sequence, known.Admitted, known.Lapsed)
	if err != nil {
		return Room{}, err
	}
	return decodeRoom(reply)
}

// StoreDraw stores the root of the draw over this number of early tickets, then beacon and seed, unless the room has
// them, and returns its state. seed is "" while the beacon is unknown. One script call, as Room.
func (g *Gate) StoreDraw(ctx context.Context, activityID, root, beacon, seed string, early int64) (Room, error) {
	if !validToken(root, maxRoomText) {
		return Room{}, fmt.Errorf("stockgate: root of a draw is malformed")
	}
	for _, text := range []string{seed, beacon} {
		if text != "" && !validToken(text, maxRoomText) {
			return Room{}, fmt.Errorf("stockgate: seed or beacon of a draw is malformed")
		}
	}
	reply, err := g.runRoom(ctx, scriptRoomDraw, activityID, root, beacon, seed, early)
	if err != nil {
		return Room{}, err
	}
	return decodeRoom(reply)
}

// Admit raises the last admitted place from one value to another, but not above the last ticket, and lets places lapse.
// Only time in which the sale is open counts against a place, and at most a second of the time between two calls. fence
// is the fencing number of the controller. If the room has another value than from, nothing is admitted. It returns the
// state of the room. One script call, as Room.
func (g *Gate) Admit(ctx context.Context, activityID string, fence, from, to int64) (Room, error) {
	reply, err := g.runRoom(ctx, scriptRoomAdmit, activityID, fence, from, to)
	if err != nil {
		return Room{}, err
	}
	return decodeRoom(reply)
}

// RoomPlaces are the numbers of a Room, which never fall: the sequence number of the last ticket, the last place that was
// admitted, and the last one that may no longer take paths. They are zero before the first ticket.
type RoomPlaces struct{ Sequence, Admitted, Lapsed int64 }

// RoomPlaces reads the places of a waiting room as the last call of Room, Admit or JoinRoom left them. It changes
// nothing. One command.
func (g *Gate) RoomPlaces(ctx context.Context, activityID string) (RoomPlaces, error) {
	if err := validateActivity(activityID); err != nil {
		return RoomPlaces{}, err
	}
	return call(ctx, g, func(ctx context.Context) (p RoomPlaces, err error) {
		list, err := g.rdb.HMGet(ctx, keyOf(activityID, "room"), "sequence", "admitted", "lapsed").Result()
		if err != nil {
			return p, err
		}
		for i, dst := range []*int64{&p.Sequence, &p.Admitted, &p.Lapsed} {
			if text, _ := list[i].(string); text != "" {
				if *dst, err = strconv.ParseInt(text, 10, 64); err != nil {
					return p, fmt.Errorf("stockgate: place %q of a waiting room", text)
				}
			}
		}
		return p, nil
	})
}

// leafPage is the number of commitments that one round trip reads.
const leafPage = 20_000

// Commitments returns the commitments of the first n tickets, in the order of their sequence numbers; zeros for those
// that Redis has lost. O(n), a round trip for 20,000 of them.
func (g *Gate) Commitments(ctx context.Context, activityID string, n int64) ([][CommitmentBytes]byte, error) {
	if err := validateActivity(activityID); err != nil {
		return nil, err
	}
	all := make([][CommitmentBytes]byte, n)
	for from := int64(0); from < n; from += leafPage {
		to := min(n, from+leafPage)
		page, err := call(ctx, g, func(ctx context.Context) (string, error) {
			return g.rdb.GetRange(ctx, keyOf(activityID, "leaves"), from*CommitmentBytes, to*CommitmentBytes-1).Result()
		})
		if err != nil {
			return nil, err
		}
		for i := from; i < to && len(page) >= CommitmentBytes; i++ {
			copy(all[i][:], page)
			page = page[CommitmentBytes:]
		}
	}
	return all, nil
}

// maxRoomText bounds hashes and beacons, which are hexadecimal.
const maxRoomText = 256

// decodeRoom decodes the list that room_state() in lua/room.lua returns.
func decodeRoom(f []string) (r Room, err error) {
	const fields = 14
	if len(f) < fields || (len(f)-fields)%2 != 0 {
		return Room{}, fmt.Errorf("stockgate: state of a waiting room has %d fields", len(f))
	}
	r = Room{
		State: GateState(f[1]), Key: f[6], Closed: f[7] != "", Root: f[8], Beacon: f[9], Seed: f[10],
	}
	for _, t := range []struct {
		dst *time.Time
		src string
	}{{&r.Now, f[0]}, {&r.StartsAt, f[2]}, {&r.EndsAt, f[3]}} {
		if *t.dst, err = decodeTime(t.src); err != nil {
			return Room{}, err
		}
	}
	for _, n := range []struct {
		dst *int64
		src string
	}{{&r.Rate, f[4]}, {&r.Sequence, f[5]}, {&r.Early, f[7]}, {&r.Admitted, f[11]}, {&r.Lapsed, f[12]}} {
		if n.src == "" {
			continue
		}
		if *n.dst, err = strconv.ParseInt(n.src, 10, 64); err != nil {
			return Room{}, fmt.Errorf("%w: number %q of a waiting room", ErrBroken, n.src)
		}
	}
	usable, err := strconv.ParseInt(f[fields-1], 10, 64)
	if err != nil {
		return Room{}, fmt.Errorf("%w: number %q of a waiting room", ErrBroken, f[fields-1])
	}
	for f = f[fields:]; len(f) > 0; f = f[2:] {
		last, err1 := strconv.ParseInt(f[0], 10, 64)
		at, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 != nil || err2 != nil {
			return Room{}, fmt.Errorf("%w: admission %q of a waiting room", ErrBroken, f[:2])
		}
		left := AdmittedFor - time.Duration(usable-at)*time.Millisecond
		r.Admissions = append(r.Admissions, RoomAdmission{last, left})
	}
	return r, nil
}
