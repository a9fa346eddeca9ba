package stockgate

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

// GateState is the state that the merchant has set. Whether a sale takes purchases depends on its window, too.
type GateState string

// The states of a gate.
const (
	GateOpen   GateState = "open"
	GatePaused GateState = "paused"
	GateEnded  GateState = "ended"
)

// Config is the configuration of a gate: its state, its window and the limits for each user.
type Config struct {
	State            GateState
	StartsAt, EndsAt time.Time // the window [StartsAt, EndsAt), by Redis time in ms
	PerUserLimit     int64     // units that one buyer may hold
	Version          int64     // of the activity's row; the higher one wins
	// ReorderLimit is the number of orders that a buyer may cancel or let expire. One more ends the buyer's allowance for
	// 10 min. 0 means any number.
	ReorderLimit int64
	// RoomRate is the number of places that the waiting room admits a second. 0 means that there is no waiting room.
	RoomRate int64
	// Challenge is the challenge that buyers solve before they may take a path.
	Challenge contract.Challenge
}

// MaxReorderLimit bounds Config.ReorderLimit: the record of a buyer lists 16 ended purchases at most.
const MaxReorderLimit = 15

// MaxRoomRate bounds Config.RoomRate.
const MaxRoomRate = 1_000_000

func (c Config) validate() error {
	switch c.State {
	case GateOpen, GatePaused, GateEnded:
	default:
		return fmt.Errorf("stockgate: state %q is unknown", c.State)
	}
	switch {
	case c.StartsAt.IsZero() || c.EndsAt.IsZero():
		return fmt.Errorf("stockgate: the window is missing")
	case c.PerUserLimit < 1:
		return fmt.Errorf("stockgate: per-user limit %d is not positive", c.PerUserLimit)
	case c.ReorderLimit < 0 || c.ReorderLimit > MaxReorderLimit:
		return fmt.Errorf("stockgate: reorder limit %d is not 0 to %d", c.ReorderLimit, MaxReorderLimit)
	case c.RoomRate < 0 || c.RoomRate > MaxRoomRate:
		return fmt.Errorf("stockgate: room rate %d is not 0 to %d", c.RoomRate, MaxRoomRate)
	case c.Challenge.Validate() != nil:
		return fmt.Errorf("stockgate: challenge %q of difficulty %d is out of range", c.Challenge.Kind, c.Challenge.Difficulty)
	case c.Version < 0 || c.Version >= maxExact:
		return fmt.Errorf("stockgate: version %d is out of range", c.Version)
	}
	return nil
}

// maxExact bounds the numbers that scripts compute with: Lua numbers are doubles, and Redis writes them with 14 digits.
const maxExact = 100_000_000_000_000

// args returns the fields of the gate hash in the order in which the configure and preload scripts take them.
func (c Config) args() []any {
	return []any{
		string(c.State), encodeTime(c.StartsAt), encodeTime(c.EndsAt), strconv.FormatInt(c.PerUserLimit, 10),
		strconv.FormatInt(c.Version, 10), strconv.FormatInt(c.ReorderLimit, 10),
		strconv.FormatInt(c.RoomRate, 10), c.Challenge.String(),
	}
}

// Configure sets state, window and limits of a gate. A version lower than the gate's fails with ErrStaleVersion and
// changes nothing; the same or a higher one is set, so a call may be repeated. It applies to all purchases that are
// decided after it returns. One script call, O(1).
func (g *Gate) Configure(ctx context.Context, activityID string, c Config) error {
	if err := c.validate(); err != nil {
		return err
	}
	_, err := g.run(ctx, scriptConfigure, activityID, c.args()...)
	return err
}
