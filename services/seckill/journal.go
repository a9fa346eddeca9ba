package seckill

import (
	"context"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/priority"
	"flashsale.internal/services/seckill/internal/relay"
)

// journal implements relay.Journal by the journals of the gates in Redis.
type journal struct{ gates *stockgate.Gate }

var _ relay.Journal = journal{}

func (j journal) Refs(ctx context.Context) ([]contract.GateRef, error) { return j.gates.Refs(ctx) }

func (j journal) Read(
	ctx context.Context, ref contract.GateRef, consumer string, limit int,
) ([]relay.Entry, bool, error) {
	entries, more, err := j.gates.ReadJournal(ctx, ref, consumer, limit)
	if err != nil {
		return nil, false, err
	}
	out := make([]relay.Entry, len(entries))
	for i, e := range entries {
		out[i] = relay.Entry(e)
	}
	return out, more, nil
}

func (j journal) Ack(ctx context.Context, ref contract.GateRef, ids []string) error {
	return j.gates.Ack(ctx, ref, ids)
}

func (j journal) Len(ctx context.Context, ref contract.GateRef) (int64, error) {
	return j.gates.JournalLen(ctx, ref)
}

// backlog implements priority.Gates by the gates in Redis.
type backlog struct{ gates *stockgate.Gate }

var _ priority.Gates = backlog{}

func (b backlog) Backlog(ctx context.Context, ref contract.GateRef) (priority.Backlog, error) {
	found, err := b.gates.Backlog(ctx, ref)
	return priority.Backlog(found), err
}
