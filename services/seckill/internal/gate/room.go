package gate

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/grouping"
)

// RoomRedis holds the methods of *stockgate.Gate that Rooms uses.
type RoomRedis interface {
	JoinRoom(ctx context.Context, activityID, key string, joins []stockgate.RoomJoin) ([]stockgate.RoomTicket, error)
	Room(ctx context.Context, activityID string, known stockgate.Room) (stockgate.Room, error)
	StoreDraw(ctx context.Context, activityID, root, beacon, seed string, early int64) (stockgate.Room, error)
	Admit(ctx context.Context, activityID string, fence, from, to int64) (stockgate.Room, error)
	Commitments(ctx context.Context, activityID string, n int64) ([][stockgate.CommitmentBytes]byte, error)
}

// Rooms implements core.RoomGate. It joins many callers with one script call.
type Rooms struct {
	redis RoomRedis
	joins *grouping.Grouper[core.Join, core.RoomNumber]
}

var _ core.RoomGate = (*Rooms)(nil)

// NewRooms returns Rooms. Its goroutines live while callers wait.
func NewRooms(redis RoomRedis, b grouping.Bounds) *Rooms {
	r := &Rooms{redis: redis}
	r.joins = grouping.New(grouping.Options{Bounds: b, Size: stockgate.MaxRoomGroup, Gathers: true}, r.joinGroup)
	return r
}

// Close refuses new calls and waits for those in flight until ctx ends.
func (r *Rooms) Close(ctx context.Context) { r.joins.Close(ctx) }

// Join implements core.RoomGate.
func (r *Rooms) Join(_ context.Context, activityID string, j core.Join) (core.RoomNumber, error) {
	n, err := r.joins.Do(activityID, j)
	return n, mapRoomError(err)
}

func (r *Rooms) joinGroup(ctx context.Context, activityID string, joins []core.Join) ([]core.RoomNumber, error) {
	requests := make([]stockgate.RoomJoin, len(joins))
	for i, j := range joins {
		requests[i] = stockgate.RoomJoin{
			UserID: j.UserID, Nonce: hex.EncodeToString(j.Nonce[:]), Commitment: j.Commitment, Replace: j.Replace,
		}
	}
	tickets, err := r.redis.JoinRoom(ctx, activityID, joins[0].Key.String(), requests)
	if err != nil {
		return nil, err
	}
	numbers := make([]core.RoomNumber, len(tickets))
	for i, t := range tickets {
		numbers[i].Sequence = t.Sequence
		raw, err := hex.DecodeString(t.Nonce)
		if err != nil || len(raw) != draw.NonceBytes {
			return nil, fmt.Errorf("%w: nonce of ticket %d", stockgate.ErrBroken, t.Sequence)
		}
		numbers[i].Nonce = draw.Nonce(raw)
	}
	return numbers, nil
}

// Room implements core.RoomGate.
func (r *Rooms) Room(ctx context.Context, activityID string, known core.Room) (core.Room, error) {
	before := stockgate.Room{
		Key: known.Key.String(), Closed: known.Closed, Early: known.Early, Sequence: known.Sequence, Admitted: known.Admitted,
	}
	if known.Root != nil {
		before.Root = known.Root.String()
	}
	if known.Seed != nil {
		before.Seed, before.Beacon = known.Seed.String(), hex.EncodeToString(known.Beacon)
	}
	return toRoom(r.redis.Room(ctx, activityID, before))
}

// Commitments implements core.RoomGate.
func (r *Rooms) Commitments(ctx context.Context, activityID string, n int64) ([]draw.Hash, error) {
	raw, err := r.redis.Commitments(ctx, activityID, n)
	if err != nil {
		return nil, mapRoomError(err)
	}
	all := make([]draw.Hash, len(raw))
	for i, c := range raw {
		all[i] = c
	}
	return all, nil
}

// StoreDraw implements core.RoomGate.
func (r *Rooms) StoreDraw(
	ctx context.Context, activityID string, root draw.Hash, seed *draw.Hash, beacon draw.Beacon, early int64,
) (core.Room, error) {
	text := ""
	if seed != nil {
		text = seed.String()
	}
	return toRoom(r.redis.StoreDraw(ctx, activityID, root.String(), hex.EncodeToString(beacon), text, early))
}

// Admit implements core.RoomGate.
func (r *Rooms) Admit(ctx context.Context, activityID string, fence, from, to int64) (core.Room, error) {
	return toRoom(r.redis.Admit(ctx, activityID, fence, from, to))
}

// toRoom converts the state of a room.
func toRoom(r stockgate.Room, err error) (core.Room, error) {
	if err != nil {
		return core.Room{}, mapRoomError(err)
	}
	out := core.Room{
		Now: r.Now, StartsAt: r.StartsAt, EndsAt: r.EndsAt, State: core.State(r.State), Rate: r.Rate,
		Sequence: r.Sequence, Closed: r.Closed, Early: r.Early, Admitted: r.Admitted, Lapsed: r.Lapsed,
	}
	for _, h := range []struct {
		text string
		set  func(draw.Hash)
	}{
		{r.Key, func(h draw.Hash) { out.Key = h }},
		{r.Root, func(h draw.Hash) { out.Root = &h }},
		{r.Seed, func(h draw.Hash) { out.Seed = &h }},
	} {
		if h.text == "" {
			continue
		}
		parsed, err := draw.ParseHash(h.text)
		if err != nil {
			return core.Room{}, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
		}
		h.set(parsed)
	}
	if r.Beacon != "" {
		if err := out.Beacon.UnmarshalText([]byte(r.Beacon)); err != nil {
			return core.Room{}, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
		}
	}
	if out.Key == (draw.Hash{}) { // before its opening by Redis time, which the caller may be ahead of
		return core.Room{}, core.ErrRoomNotOpen
	}
	return out, nil
}

// mapRoomError converts an error of a waiting room to one of core.
func mapRoomError(err error) error {
	if err == nil {
		return nil
	}
	for _, e := range roomErrors {
		if errors.Is(err, e.of) {
			return fmt.Errorf("%w: %w", e.to, err)
		}
	}
	return mapError(err)
}

var roomErrors = []struct{ of, to error }{
	{stockgate.ErrNoRoom, core.ErrNoRoom},
	{stockgate.ErrRoomNotOpen, core.ErrRoomNotOpen},
	{stockgate.ErrRoomEnded, core.ErrRoomEnded},
	{stockgate.ErrRoomNotReady, core.ErrRoomNotReady},
	{stockgate.ErrFenced, core.ErrFenced},
}
