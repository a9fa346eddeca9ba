package gate

import (
	"context"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/core"
)

// Journal implements core.Journal.
type Journal struct{ Redis *stockgate.Gate }

var _ core.Journal = Journal{}

// Refs implements core.Journal.
func (j Journal) Refs(ctx context.Context) ([]contract.GateRef, error) {
	return j.Redis.Refs(ctx)
}

// Read implements core.Journal.
func (j Journal) Read(ctx context.Context, ref contract.GateRef, consumer string, limit int) ([]core.JournalEntry, error) {
	entries, err := j.Redis.ReadJournal(ctx, ref, consumer, limit)
	if err != nil {
		return nil, err
	}
	out := make([]core.JournalEntry, len(entries))
	for i, e := range entries {
		out[i] = core.JournalEntry(e)
	}
	return out, nil
}

// Ack implements core.Journal.
func (j Journal) Ack(ctx context.Context, ref contract.GateRef, ids []string) error {
	return j.Redis.Ack(ctx, ref, ids)
}

// Len implements core.Journal.
func (j Journal) Len(ctx context.Context, ref contract.GateRef) (int64, error) {
	return j.Redis.JournalLen(ctx, ref)
}
