package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/draw"
)

// Times of a waiting room. pkg/stockgate/lua/room.lua decides by the same values.
const (
	roomOpens = 10 * time.Minute // before the start
	// RoomCloses is the time before the start at which early joining closes: later tickets take part in no draw.
	RoomCloses = time.Minute
)

// Ages and bounds of the cached rooms.
const (
	roomInterval = 200 * time.Millisecond
	maxRoomAge   = time.Second
	roomIdle     = 30 * time.Second
	maxRooms     = 1024
)

// Errors of a RoomGate.
var (
	// ErrNoRoom means that the activity has no waiting room.
	ErrNoRoom = errors.New("no waiting room")
	// ErrRoomNotOpen means that the room opens later.
	ErrRoomNotOpen = errors.New("waiting room is not open yet")
	// ErrRoomEnded means that the activity has ended.
	ErrRoomEnded = errors.New("activity of the waiting room has ended")
	// ErrRoomNotReady means that the call came too early, for example before the draw.
	ErrRoomNotReady = errors.New("waiting room is not ready for this")
	// ErrFenced means that a later controller admits in this room.
	ErrFenced = errors.New("a later controller admits in this waiting room")
)

// Room is the state of a waiting room at the Redis time Now.
type Room struct {
	Now              time.Time
	StartsAt, EndsAt time.Time
	State            State // as in GateState
	Rate             int64 // places admitted a second, at most
	Sequence         int64 // of the last ticket
	Key              draw.Hash
	Closed           bool       // early joining has closed
	Early            int64      // number of early tickets, once Closed
	Root, Seed       *draw.Hash // of the draw; nil until they are stored, Root first
	Beacon           draw.Beacon
	Admitted         int64 // last place that may take paths
	Lapsed           int64 // last place that no longer may
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

// Join is the request of a user for a ticket.
type Join struct {
	UserID     string
	Key        draw.Hash // of the draw, if the room is not open yet
	Nonce      draw.Nonce
	Commitment draw.Hash
	Replace    int64 // sequence number of the user's lapsed ticket; 0 for none
}

// RoomNumber is what a ticket is made of: its sequence number and its nonce.
type RoomNumber struct {
	Sequence int64
	Nonce    draw.Nonce
}

// RoomGate holds the waiting rooms. Its scripts decide by Redis time.
type RoomGate interface {
	// Join returns the ticket of a user: the one that the user has, or a new one. Like Gate.Reserve it waits for a bounded
	// time and may send the calls of many callers together.
	Join(ctx context.Context, activityID string, j Join) (RoomNumber, error)
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

// RoomCache holds the state of the waiting rooms that requests use. While Redis is unreachable, the last known state
// stays: the counter does not move, and tickets stay valid.
type RoomCache struct {
	gate RoomGate
	now  func() time.Time

	mu    sync.Mutex
	slots map[string]*roomSlot
}

type roomSlot struct {
	usedAt time.Time // guarded by RoomCache.mu

	last    atomic.Pointer[roomReading] // nil until the room was read once
	reading sync.Mutex                  // held while the room is read

	drawMu sync.Mutex // held while the draw is read
	drawn  *drawnTickets
}

// roomReading is a room as it was last read. After a failed read it has the time of the attempt.
type roomReading struct {
	room Room
	at   time.Time
}

// drawnTickets are the early tickets of a draw. They never change.
type drawnTickets struct {
	commitments []draw.Hash
	tree        *draw.Tree
}

// NewRoomCache returns a cache that reads on demand; Run keeps it fresh. now is the clock of this process.
func NewRoomCache(gate RoomGate, now func() time.Time) *RoomCache {
	return &RoomCache{gate: gate, now: now, slots: map[string]*roomSlot{}}
}

// Run refreshes the rooms in use until ctx ends. The rooms are few, and each read is one call.
func (c *RoomCache) Run(ctx context.Context) error {
	tick := time.NewTicker(roomInterval)
	defer tick.Stop()
	for {
		for id, s := range c.inUse() {
			_, _ = c.read(ctx, id, s, roomInterval/2) // after an error the last state stays
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// inUse returns the rooms that were used lately, and drops those whose activities have ended.
func (c *RoomCache) inUse() map[string]*roomSlot {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	used := map[string]*roomSlot{}
	for id, s := range c.slots {
		switch idle := now.Sub(s.usedAt); {
		case idle <= roomIdle:
			used[id] = s
		case idle > time.Hour: // until then it is what Redis may need after a loss
			delete(c.slots, id)
		}
	}
	return used
}

// get returns the state of a room, at most maxRoomAge old while Redis is reachable. The activity must have a room.
func (c *RoomCache) get(ctx context.Context, id string) (Room, *roomSlot, error) {
	c.mu.Lock()
	s := c.slots[id]
	if s == nil {
		if len(c.slots) >= maxRooms {
			c.mu.Unlock()
			return Room{}, nil, fmt.Errorf("%w: too many waiting rooms", ErrOverloaded)
		}
		s = &roomSlot{}
		c.slots[id] = s
	}
	s.usedAt = c.now()
	c.mu.Unlock()
	r, err := c.read(ctx, id, s, maxRoomAge)
	return r, s, err
}

// read returns the state of a room and reads it if it is older than maxAge. One caller at a time reads; the others get
// the last state meanwhile, and only wait if there is none.
func (c *RoomCache) read(ctx context.Context, id string, s *roomSlot, maxAge time.Duration) (Room, error) {
	last := s.last.Load()
	if last != nil && c.now().Sub(last.at) <= maxAge {
		return last.room, nil
	}
	switch {
	case last == nil:
		s.reading.Lock()
	case !s.reading.TryLock():
		return last.room, nil
	}
	defer s.reading.Unlock()
	if last = s.last.Load(); last != nil && c.now().Sub(last.at) <= maxAge {
		return last.room, nil
	}
	var known Room
	if last != nil {
		known = last.room
	}
	if known.Key == (draw.Hash{}) {
		known.Key = draw.NewHash()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	at := c.now()
	room, err := c.gate.Room(ctx, id, known)
	switch {
	case err == nil:
		s.last.Store(&roomReading{room, at})
		return room, nil
	case last == nil || errors.Is(err, ErrNoRoom):
		return Room{}, err
	}
	// The counter does not move. The next caller reads again after a pause, so that an unreachable Redis is not called for
	// every request.
	s.last.Store(&roomReading{last.room, at.Add(roomInterval - maxAge)})
	return last.room, nil
}

// tickets returns the early tickets of a room whose draw is stored.
func (c *RoomCache) tickets(ctx context.Context, id string, s *roomSlot, r Room) (*drawnTickets, error) {
	s.drawMu.Lock()
	defer s.drawMu.Unlock()
	if s.drawn != nil {
		return s.drawn, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	commitments, err := c.gate.Commitments(ctx, id, r.Early)
	if err != nil {
		return nil, err
	}
	tree, err := draw.NewTree(commitments)
	if err != nil {
		return nil, err
	}
	s.drawn = &drawnTickets{commitments, tree}
	return s.drawn, nil
}

// TicketState is the state of a ticket of a waiting room.
type TicketState string

// The states of a ticket. Early means that the ticket gets its place by lot at the start.
const (
	TicketEarly    TicketState = "early"
	TicketWaiting  TicketState = "waiting"
	TicketAdmitted TicketState = "admitted"
	TicketLapsed   TicketState = "lapsed"
)

// TicketView is a ticket as its buyer sees it.
type TicketView struct {
	State      TicketState
	Place      int64 // 0 while unknown
	Ahead      int64 // places that are admitted before this one
	Estimate   time.Duration
	RetryAfter time.Duration
	Proof      *Proof // of an early ticket, once the root is published
	Draw       draw.Published
}

// Proof shows that a ticket is part of the published draw.
type Proof struct {
	Sequence   int64
	Commitment draw.Hash
	Path       []draw.Hash
}

// JoinRoom returns a ticket for the waiting room: the one that the user has, or a new one. A ticket that has lapsed is
// replaced by one at the end of the queue.
func (s *Service) JoinRoom(ctx context.Context, userID, activityID string) (string, error) {
	room, _, err := s.room(ctx, activityID)
	if err != nil {
		return "", err
	}
	number, err := s.join(ctx, userID, activityID, room, 0)
	if err != nil {
		return "", s.roomRefusal(ctx, activityID, room, err)
	}
	if state, _ := ticketState(&room, number.Sequence, s.Sales.Now(ctx)); state == TicketLapsed {
		if number, err = s.join(ctx, userID, activityID, room, number.Sequence); err != nil {
			return "", s.roomRefusal(ctx, activityID, room, err)
		}
	}
	return s.Seal.roomTicket(activityID, userID, number), nil
}

func (s *Service) join(
	ctx context.Context, userID, activityID string, room Room, replace int64,
) (RoomNumber, error) {
	nonce := draw.NewNonce()
	return s.RoomGate.Join(ctx, activityID, Join{
		UserID: userID, Key: room.Key, Nonce: nonce, Commitment: draw.Commit(activityID, userID, nonce), Replace: replace,
	})
}

// room returns the room of an activity that has one and has opened, and else a refusal. After the end of the activity
// the room is readable as long as its gate.
func (s *Service) room(ctx context.Context, activityID string) (Room, *roomSlot, error) {
	v, err := s.Sales.get(ctx, activityID, maxDisplayAge)
	if err != nil {
		return Room{}, nil, s.refusal(ctx, activityID, err)
	}
	if v.GateState.RoomRate == 0 {
		return Room{}, nil, noRoom()
	}
	now := s.Sales.Now(ctx)
	if now.Before(v.GateState.StartsAt.Add(-roomOpens)) {
		return Room{}, nil, roomNotOpen(v.GateState.StartsAt)
	}
	room, slot, err := s.Rooms.get(ctx, activityID)
	if err != nil {
		return Room{}, nil, s.roomRefusal(ctx, activityID, room, err)
	}
	return room, slot, nil
}

// roomRefusal converts an error of a RoomGate.
func (s *Service) roomRefusal(ctx context.Context, activityID string, room Room, err error) error {
	switch {
	case errors.Is(err, ErrNoRoom):
		return noRoom()
	case errors.Is(err, ErrRoomEnded):
		return ended()
	case errors.Is(err, ErrRoomNotOpen) && !room.StartsAt.IsZero():
		return roomNotOpen(room.StartsAt)
	case errors.Is(err, ErrRoomNotOpen), errors.Is(err, ErrRoomNotReady):
		return contract.Refuse(contract.CodeUnavailable, "the waiting room is not ready yet").After(time.Second)
	}
	return s.refusal(ctx, activityID, err)
}

// ticketState returns the state of a ticket and its place, 0 while unknown.
func ticketState(r *Room, sequence int64, now time.Time) (TicketState, int64) {
	place, known := r.place(sequence, now)
	switch {
	case !known:
		return TicketEarly, 0
	case place > r.Admitted:
		return TicketWaiting, place
	case place <= r.Lapsed:
		return TicketLapsed, place
	}
	return TicketAdmitted, place
}

// RoomTicket returns the state of a ticket of this user.
func (s *Service) RoomTicket(ctx context.Context, userID, activityID, token string) (TicketView, error) {
	room, slot, err := s.room(ctx, activityID)
	if err != nil {
		return TicketView{}, err
	}
	number, err := s.Seal.openRoomTicket(token, activityID, userID)
	if err != nil {
		return TicketView{}, roomRequired()
	}
	now := s.Sales.Now(ctx)
	v := TicketView{Draw: published(activityID, &room, now)}
	v.State, v.Place = ticketState(&room, number.Sequence, now)
	switch v.State {
	case TicketEarly:
		v.Estimate = max(0, room.StartsAt.Sub(now))
		v.RetryAfter = clamp(v.Estimate/4, 2*time.Second, 30*time.Second)
	case TicketWaiting:
		v.Ahead, v.Estimate = waiting(&room, v.Place, now)
		v.RetryAfter = clamp(v.Estimate/4, time.Second, 30*time.Second)
	case TicketAdmitted, TicketLapsed:
	}
	if room.Root == nil || number.Sequence > room.Early {
		return v, nil
	}
	tickets, err := s.Rooms.tickets(ctx, activityID, slot, room)
	if err != nil {
		return TicketView{}, s.refusal(ctx, activityID, err)
	}
	path, err := tickets.tree.Prove(number.Sequence)
	if err != nil {
		return TicketView{}, err
	}
	v.Proof = &Proof{number.Sequence, draw.Commit(activityID, userID, number.Nonce), path}
	return v, nil
}

// waiting returns how many places are admitted before this one, and the estimated time until it is.
func waiting(r *Room, place int64, now time.Time) (ahead int64, estimate time.Duration) {
	ahead = place - r.Admitted - 1
	estimate = max(0, r.StartsAt.Sub(now)) + time.Duration(float64(ahead+1)/float64(r.Rate)*float64(time.Second))
	return ahead, estimate
}

func clamp(d, least, most time.Duration) time.Duration { return max(least, min(d, most)) }

// CheckRoom refuses a user whose ticket is not admitted, if the activity has a waiting room. It uses the cached room.
func (s *Service) CheckRoom(ctx context.Context, userID, activityID, token string) error {
	v, err := s.Sales.get(ctx, activityID, maxDecisionAge)
	if err != nil {
		return s.refusal(ctx, activityID, err)
	}
	if v.GateState.RoomRate == 0 {
		return nil
	}
	if token == "" {
		return roomRequired()
	}
	number, err := s.Seal.openRoomTicket(token, activityID, userID)
	if err != nil {
		return roomRequired()
	}
	room, _, err := s.Rooms.get(ctx, activityID)
	if err != nil {
		return s.roomRefusal(ctx, activityID, room, err)
	}
	now := s.Sales.Now(ctx)
	switch state, place := ticketState(&room, number.Sequence, now); state {
	case TicketAdmitted:
		return nil
	case TicketLapsed:
		return roomRequired()
	case TicketEarly: // the draw is being computed
		return roomWaiting(room.Early, time.Second)
	default:
		ahead, estimate := waiting(&room, place, now)
		return roomWaiting(ahead, estimate)
	}
}

// published returns the draw as far as it may be published now.
func published(activityID string, r *Room, now time.Time) draw.Published {
	p := draw.Published{ActivityID: activityID, KeySHA256: draw.KeyHash(r.Key)}
	if r.Root == nil {
		return p
	}
	early := r.Early
	p.Root, p.EarlyTickets, p.Beacon = r.Root, &early, r.Beacon
	p.TicketsURL = "/v1/activities/" + activityID + "/room/tickets"
	if !now.Before(r.StartsAt) {
		key := r.Key
		p.Key, p.Seed = &key, r.Seed
	}
	return p
}

// Draw returns the draw of an activity as far as it is published.
func (s *Service) Draw(ctx context.Context, activityID string) (draw.Published, error) {
	room, _, err := s.room(ctx, activityID)
	if err != nil {
		return draw.Published{}, err
	}
	return published(activityID, &room, s.Sales.Now(ctx)), nil
}

// DrawTickets returns the commitments of the early tickets, once the root is published.
func (s *Service) DrawTickets(ctx context.Context, activityID string) ([]draw.Hash, error) {
	room, slot, err := s.room(ctx, activityID)
	if err != nil {
		return nil, err
	}
	if room.Root == nil {
		return nil, contract.Refuse(contract.CodeNotFound, "the tickets are published when early joining has closed")
	}
	tickets, err := s.Rooms.tickets(ctx, activityID, slot, room)
	if err != nil {
		return nil, s.refusal(ctx, activityID, err)
	}
	return tickets.commitments, nil
}

func noRoom() error {
	return contract.Refuse(contract.CodeNotFound, "this activity has no waiting room")
}

func roomNotOpen(startsAt time.Time) error {
	return contract.Refuse(contract.CodeActivityNotStarted, "the waiting room is not open yet").
		With("starts_at", startsAt.UTC()).With("opens_at", startsAt.Add(-roomOpens).UTC())
}

func roomRequired() error {
	return contract.Refuse(contract.CodeRoomRequired, "join the waiting room first; a place is kept for a minute")
}

func roomWaiting(ahead int64, estimate time.Duration) error {
	return contract.Refuse(contract.CodeRoomWaiting, "it is not your turn yet").
		With("ahead", ahead).With("estimate_s", seconds(estimate)).After(clamp(estimate/4, time.Second, 30*time.Second))
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
