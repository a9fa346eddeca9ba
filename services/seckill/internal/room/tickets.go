package room

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/draw"
	"flashsale.internal/services/seckill/internal/core"
)

// State is the state of a ticket of a waiting room.
type State string

// The states of a ticket. Early means that the ticket gets its place by lot at the start.
const (
	Early    State = "early"
	Waiting  State = "waiting"
	Admitted State = "admitted"
	Lapsed   State = "lapsed"
)

// Ticket is a ticket as its buyer sees it.
type Ticket struct {
	State      State
	Place      int64 // 0 while unknown
	Ahead      int64 // places that are admitted before this one
	Estimate   time.Duration
	RetryAfter time.Duration
	Until      time.Time // of an admitted one, see Room.until
	Proof      *Proof    // of an early ticket, once the root is published; nil while the tickets are not readable
	Draw       draw.Published
}

// Proof shows that a ticket is part of the published draw.
type Proof struct {
	Sequence   int64
	Commitment draw.Hash // of its leaf; draw.Lost if Redis has lost it
	Path       []draw.Hash
}

// Tickets issues tickets for the waiting rooms to buyers, and judges them.
type Tickets struct {
	store Store
	cache *Cache
	sales *core.SaleCache
	seal  *core.Seal
}

// NewTickets returns Tickets. cache reads store.
func NewTickets(store Store, cache *Cache, sales *core.SaleCache, seal *core.Seal) *Tickets {
	return &Tickets{store, cache, sales, seal}
}

// Join returns a ticket for the waiting room: the one that the user has, or a new one. A ticket that has lapsed is
// replaced by one at the end of the queue.
func (t *Tickets) Join(ctx context.Context, userID, activityID string) (string, error) {
	room, _, err := t.room(ctx, activityID)
	if err != nil {
		return "", err
	}
	number, err := t.join(ctx, userID, activityID, room, 0)
	if err != nil {
		return "", t.refusal(ctx, activityID, room, err)
	}
	if state, _ := stateOf(&room, number.Sequence, t.sales.Now(ctx)); state == Lapsed {
		if number, err = t.join(ctx, userID, activityID, room, number.Sequence); err != nil {
			return "", t.refusal(ctx, activityID, room, err)
		}
	}
	return seal(t.seal, activityID, userID, number), nil
}

func (t *Tickets) join(
	ctx context.Context, userID, activityID string, room Room, replace int64,
) (Number, error) {
	nonce := draw.NewNonce()
	return t.store.Join(ctx, activityID, Join{
		UserID: userID, Key: room.Key, Nonce: nonce, Commitment: draw.Commit(activityID, userID, nonce), Replace: replace,
	})
}

// room returns the room of an activity that has one and has opened, and else a refusal. After the end of the activity
// the room is readable as long as its gate.
func (t *Tickets) room(ctx context.Context, activityID string) (Room, *slot, error) {
	sale, err := t.sales.GateState(ctx, activityID, core.MaxDisplayAge)
	if err != nil {
		return Room{}, nil, err
	}
	if sale.RoomRate == 0 {
		return Room{}, nil, noRoom()
	}
	if t.sales.Now(ctx).Before(sale.RoomOpensAt()) {
		return Room{}, nil, notOpen(sale.StartsAt)
	}
	room, slot, err := t.cache.get(ctx, activityID)
	if err != nil {
		return Room{}, nil, t.refusal(ctx, activityID, room, err)
	}
	return room, slot, nil
}

// refusal converts an error of a Store to a refusal.
func (t *Tickets) refusal(ctx context.Context, activityID string, room Room, err error) error {
	switch {
	case errors.Is(err, ErrNone):
		return noRoom()
	case errors.Is(err, ErrEnded):
		return core.RefuseEnded()
	case errors.Is(err, ErrNotOpen) && !room.StartsAt.IsZero():
		return notOpen(room.StartsAt)
	case errors.Is(err, ErrNotOpen), errors.Is(err, ErrNotReady):
		return contract.Refuse(contract.CodeUnavailable, "the waiting room is not ready yet").After(time.Second)
	}
	return t.sales.Refusal(ctx, activityID, err)
}

// stateOf returns the state of a ticket and its place, 0 while unknown.
func stateOf(r *Room, sequence int64, now time.Time) (State, int64) {
	place, known := r.place(sequence, now)
	switch {
	case !known:
		return Early, 0
	case place > r.Admitted:
		return Waiting, place
	case place <= r.Lapsed:
		return Lapsed, place
	}
	return Admitted, place
}

// Ticket returns the state of a ticket of this user.
func (t *Tickets) Ticket(ctx context.Context, userID, activityID, token string) (Ticket, error) {
	room, slot, err := t.room(ctx, activityID)
	if err != nil {
		return Ticket{}, err
	}
	number, err := open(t.seal, token, activityID, userID)
	if err != nil {
		return Ticket{}, required()
	}
	now := t.sales.Now(ctx)
	v := Ticket{Draw: published(activityID, &room, now)}
	v.State, v.Place = stateOf(&room, number.Sequence, now)
	switch v.State {
	case Early:
		v.Estimate = max(0, room.StartsAt.Sub(now))
		v.RetryAfter = clamp(v.Estimate/4, 2*time.Second, 30*time.Second)
	case Waiting:
		v.Ahead, v.Estimate = waiting(&room, v.Place, now)
		v.RetryAfter = clamp(v.Estimate/4, time.Second, 30*time.Second)
	case Admitted:
		v.Until = room.until(v.Place)
	case Lapsed:
	}
	if room.Root == nil || number.Sequence > room.Early {
		return v, nil
	}
	// The state of a ticket does not depend on its proof, so it is readable while the tickets are not.
	if tickets, err := t.cache.tickets(ctx, activityID, slot, room, false); err == nil {
		path, err := tickets.tree.Prove(number.Sequence)
		if err != nil {
			return Ticket{}, err
		}
		v.Proof = &Proof{number.Sequence, tickets.commitments[number.Sequence-1], path}
	}
	return v, nil
}

// waiting returns how many places are admitted before this one, and the estimated time until it is.
func waiting(r *Room, place int64, now time.Time) (ahead int64, estimate time.Duration) {
	ahead = place - r.Admitted - 1
	estimate = max(0, r.StartsAt.Sub(now)) + time.Duration(float64(ahead+1)/float64(r.Rate)*float64(time.Second))
	return ahead, estimate
}

func clamp(d, least, most time.Duration) time.Duration { return max(least, min(d, most)) }

// Check refuses a user whose ticket is not admitted, if the activity has a waiting room. It uses the cached room.
func (t *Tickets) Check(ctx context.Context, userID, activityID, token string) error {
	sale, err := t.sales.GateState(ctx, activityID, core.MaxDecisionAge)
	if err != nil {
		return err
	}
	if sale.RoomRate == 0 {
		return nil
	}
	if token == "" {
		return required()
	}
	number, err := open(t.seal, token, activityID, userID)
	if err != nil {
		return required()
	}
	room, _, err := t.cache.get(ctx, activityID)
	if err != nil {
		return t.refusal(ctx, activityID, room, err)
	}
	now := t.sales.Now(ctx)
	switch state, place := stateOf(&room, number.Sequence, now); state {
	case Admitted:
		return nil
	case Lapsed:
		return required()
	case Early: // the draw is being computed
		return refuseWaiting(room.Early, time.Second)
	default:
		ahead, estimate := waiting(&room, place, now)
		return refuseWaiting(ahead, estimate)
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
func (t *Tickets) Draw(ctx context.Context, activityID string) (draw.Published, error) {
	room, _, err := t.room(ctx, activityID)
	if err != nil {
		return draw.Published{}, err
	}
	return published(activityID, &room, t.sales.Now(ctx)), nil
}

// Commitments returns the commitments of the early tickets, once the root is published.
func (t *Tickets) Commitments(ctx context.Context, activityID string) ([]draw.Hash, error) {
	room, slot, err := t.room(ctx, activityID)
	if err != nil {
		return nil, err
	}
	if room.Root == nil {
		return nil, contract.Refuse(contract.CodeNotFound, "the tickets are published when early joining has closed")
	}
	tickets, err := t.cache.tickets(ctx, activityID, slot, room, true)
	if err != nil {
		return nil, t.sales.Refusal(ctx, activityID, err)
	}
	return tickets.commitments, nil
}

func noRoom() error {
	return contract.Refuse(contract.CodeNotFound, "this activity has no waiting room")
}

func notOpen(startsAt time.Time) error {
	return contract.Refuse(contract.CodeActivityNotStarted, "the waiting room is not open yet").
		With("starts_at", startsAt.UTC()).With("opens_at", (core.GateState{StartsAt: startsAt}).RoomOpensAt().UTC())
}

func required() error {
	return contract.Refuse(contract.CodeRoomRequired, "join the waiting room first; a place is kept for a minute")
}

func refuseWaiting(ahead int64, estimate time.Duration) error {
	return contract.Refuse(contract.CodeRoomWaiting, "it is not your turn yet").
		With("ahead", ahead).With("estimate_s", seconds(estimate)).After(clamp(estimate/4, time.Second, 30*time.Second))
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

var errTicket = errors.New("ticket does not verify")

// encoding of tickets. Strict demands that spare bits are zero.
var encoding = base64.RawURLEncoding.Strict()

const ticketMaxChars = 19 + 1 + 22 + 1 + 22 // sequence number, nonce and MAC

// seal returns the ticket of a user: sequence number, nonce and MAC. docs/draw.md specifies it.
func seal(s *core.Seal, activityID, userID string, n Number) string {
	sequence := strconv.FormatInt(n.Sequence, 10)
	mac := s.AppendMAC(nil, "room", n.Nonce[:], activityID, userID, sequence)
	return sequence + "." + encoding.EncodeToString(n.Nonce[:]) + "." + encoding.EncodeToString(mac)
}

// open verifies that the ticket was issued to this user for the waiting room of this activity.
func open(s *core.Seal, token, activityID, userID string) (n Number, err error) {
	if len(token) > ticketMaxChars || strings.ContainsAny(token, "\r\n") {
		return Number{}, errTicket
	}
	sequence, rest, _ := strings.Cut(token, ".")
	nonce, mac, _ := strings.Cut(rest, ".")
	if n.Sequence, err = strconv.ParseInt(sequence, 10, 64); err != nil || n.Sequence < 1 ||
		strconv.FormatInt(n.Sequence, 10) != sequence {
		return Number{}, errTicket
	}
	raw, err := encoding.DecodeString(nonce)
	if err != nil || len(raw) != len(n.Nonce) {
		return Number{}, errTicket
	}
	copy(n.Nonce[:], raw)
	got, err := encoding.DecodeString(mac)
	if err != nil || !s.Verifies(got, "room", n.Nonce[:], activityID, userID, sequence) {
		return Number{}, errTicket
	}
	return n, nil
}
