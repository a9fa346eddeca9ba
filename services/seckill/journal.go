package seckill

import (
	"context"
	"errors"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/priority"
	"flashsale.internal/services/seckill/internal/relay"
)

// journal implements relay.Journal by the journals of the gates in Redis.
type journal struct{ gates *stockgate.Gate }

var _ relay.Journal = journal{}

func (j journal) Registered(ctx context.Context) ([]string, error) { return j.gates.Registered(ctx) }

func (j journal) Read(
	ctx context.Context, activityID, consumer string, limit int,
) ([]relay.Entry, bool, error) {
	entries, more, err := j.gates.ReadJournal(ctx, activityID, consumer, limit)
	if err != nil {
		return nil, false, err
	}
	out := make([]relay.Entry, len(entries))
	for i, e := range entries {
		out[i] = relay.Entry(e)
	}
	return out, more, nil
}

func (j journal) Ack(ctx context.Context, activityID string, ids []string) error {
	return j.gates.Ack(ctx, activityID, ids)
}

func (j journal) Backlog(ctx context.Context, activityID string) (relay.Backlog, error) {
	b, err := j.gates.Backlog(ctx, activityID)
	if errors.Is(err, stockgate.ErrNoGate) {
		return relay.Backlog{}, nil
	}
	return relay.Backlog{Journaled: b.JournalLen, NotLanded: b.UnlandedLen, Oldest: b.UnlandedAge}, err
}

// backlog implements priority.Gates by the gates in Redis.
type backlog struct{ gates *stockgate.Gate }

var _ priority.Gates = backlog{}

func (b backlog) Backlog(ctx context.Context, activityID string) (priority.Backlog, error) {
	found, err := b.gates.Backlog(ctx, activityID)
	return priority.Backlog{
		JournalLen: found.JournalLen, OldestAge: found.OldestAge, UnlandedLen: found.UnlandedLen, Purchases: found.Purchases,
		Build: found.Build,
	}, err
}
