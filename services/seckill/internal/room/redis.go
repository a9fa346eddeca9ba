package room

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"flashsale.internal/pkg/draw"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/gate"
	"flashsale.internal/services/seckill/internal/grouping"
)

// Redis holds the methods of *stockgate.Gate that a RedisStore uses.
type Redis interface {
	JoinRoom(ctx context.Context, activityID, key string, joins []stockgate.RoomJoin) ([]stockgate.RoomTicket, error)
	Room(ctx context.Context, activityID string, known stockgate.Room) (stockgate.Room, error)
	StoreDraw(ctx context.Context, activityID, root, beacon, seed string, early int64) (stockgate.Room, error)
	Admit(ctx context.Context, activityID string, fence, from, to int64) (stockgate.Room, error)
	Commitments(ctx context.Context, activityID string, n int64) ([][stockgate.CommitmentBytes]byte, error)
}

// RedisStore implements Store by the scripts of pkg/stockgate. It joins many callers with one script call.
type RedisStore struct {
	redis Redis
	joins *grouping.Grouper[Join, Number]
}

var _ Store = (*RedisStore)(nil)

// NewRedisStore returns a RedisStore. Its goroutines live while callers wait.
func NewRedisStore(redis Redis, b grouping.Bounds) *RedisStore {
	r := &RedisStore{redis: redis}
	r.joins = grouping.New(grouping.Options{Bounds: b, Size: stockgate.MaxRoomGroup, Gathers: true}, r.joinGroup)
	return r
}

// Close refuses new calls and waits for those in flight until ctx ends.
func (r *RedisStore) Close(ctx context.Context) { r.joins.Close(ctx) }

// Join implements Store.
func (r *RedisStore) Join(_ context.Context, activityID string, j Join) (Number, error) {
	n, err := r.joins.Do(activityID, j)
	return n, mapError(err)
}

func (r *RedisStore) joinGroup(ctx context.Context, activityID string, joins []Join) ([]Number, error) {
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
	numbers := make([]Number, len(tickets))
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

// Room implements Store.
func (r *RedisStore) Room(ctx context.Context, activityID string, known Room) (Room, error) {
	before := stockgate.Room{
		Key: known.Key.String(), Closed: known.Closed, Early: known.Early, Sequence: known.Sequence, Admitted: known.Admitted,
		Lapsed: known.Lapsed,
	}
	if known.Root != nil {
		before.Root = known.Root.String()
	}
	if known.Seed != nil {
		before.Seed, before.Beacon = known.Seed.String(), hex.EncodeToString(known.Beacon)
	}
	return toRoom(r.redis.Room(ctx, activityID, before))
}

// Commitments implements Store.
func (r *RedisStore) Commitments(ctx context.Context, activityID string, n int64) ([]draw.Hash, error) {
	raw, err := r.redis.Commitments(ctx, activityID, n)
	if err != nil {
		return nil, mapError(err)
	}
	all := make([]draw.Hash, len(raw))
	for i, c := range raw {
		all[i] = c
	}
	return all, nil
}

// StoreDraw implements Store.
func (r *RedisStore) StoreDraw(
	ctx context.Context, activityID string, root draw.Hash, seed *draw.Hash, beacon draw.Beacon, early int64,
) (Room, error) {
	text := ""
	if seed != nil {
		text = seed.String()
	}
	return toRoom(r.redis.StoreDraw(ctx, activityID, root.String(), hex.EncodeToString(beacon), text, early))
}

// Admit implements Store.
func (r *RedisStore) Admit(ctx context.Context, activityID string, fence, from, to int64) (Room, error) {
	return toRoom(r.redis.Admit(ctx, activityID, fence, from, to))
}

// toRoom converts the state of a room.
func toRoom(r stockgate.Room, err error) (Room, error) {
	if err != nil {
		return Room{}, mapError(err)
	}
	out := Room{
		Now: r.Now, StartsAt: r.StartsAt, EndsAt: r.EndsAt, State: core.State(r.State), Rate: r.Rate,
		Sequence: r.Sequence, Closed: r.Closed, Early: r.Early, Admitted: r.Admitted, Lapsed: r.Lapsed,
		Admissions: r.Admissions,
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
			return Room{}, fmt.Errorf("%w: %w: %w", core.ErrUnavailable, stockgate.ErrBroken, err)
		}
		h.set(parsed)
	}
	if r.Beacon != "" {
		if err := out.Beacon.UnmarshalText([]byte(r.Beacon)); err != nil {
			return Room{}, fmt.Errorf("%w: %w: %w", core.ErrUnavailable, stockgate.ErrBroken, err)
		}
	}
	if out.Key == (draw.Hash{}) { // before its opening by Redis time, which the caller may be ahead of
		return Room{}, ErrNotOpen
	}
	return out, nil
}

// mapError converts an error of stockgate.
func mapError(err error) error {
	if err == nil {
		return nil
	}
	for _, e := range storeErrors {
		if errors.Is(err, e.of) {
			return fmt.Errorf("%w: %w", e.to, err)
		}
	}
	return gate.MapError(err)
}

var storeErrors = []struct{ of, to error }{
	{stockgate.ErrNoRoom, ErrNone},
	{stockgate.ErrRoomNotOpen, ErrNotOpen},
	{stockgate.ErrRoomEnded, ErrEnded},
	{stockgate.ErrRoomNotReady, ErrNotReady},
	{stockgate.ErrFenced, ErrFenced},
}
