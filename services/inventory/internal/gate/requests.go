package gate

import (
	"context"
	"time"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/inventory/internal/board"
)

var _ board.Counters = (*Gate)(nil)

// Requests implements board.Counters.
func (g *Gate) Requests(ctx context.Context, activityID string) (board.Requests, error) {
	c, err := g.gate.Totals(ctx, activityID)
	return requests(c), translate(err)
}

// RequestsSince implements board.Counters.
func (g *Gate) RequestsSince(ctx context.Context, activityID string, since time.Time) ([]board.Second, error) {
	list, err := g.gate.CountsSince(ctx, activityID, since)
	seconds := make([]board.Second, len(list))
	for i, c := range list {
		seconds[i] = board.Second{At: c.At, Requests: requests(c)}
	}
	return seconds, translate(err)
}

// RoomPlaces implements board.Counters.
func (g *Gate) RoomPlaces(ctx context.Context, activityID string) (board.RoomPlaces, error) {
	p, err := g.gate.RoomPlaces(ctx, activityID)
	return board.RoomPlaces(p), translate(err)
}

func requests(c stockgate.RequestCounts) board.Requests {
	return board.Requests{Accepted: c.Accepted, Paths: c.Paths, Solved: c.Solved, Failed: c.Failed, Refused: c.Refused}
}
