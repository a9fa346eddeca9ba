package gate

import (
	"context"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/services/seckill/internal/relay"
)

// Journal implements relay.Journal.
type Journal struct{ Redis *stockgate.Gate }

var _ relay.Journal = Journal{}

// Refs implements relay.Journal.
func (j Journal) Refs(ctx context.Context) ([]relay.Ref, error) {
	refs, err := j.Redis.Refs(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]relay.Ref, len(refs))
	for i, r := range refs {
		out[i] = relay.Ref(r)
	}
	return out, nil
}

// Read implements relay.Journal.
func (j Journal) Read(ctx context.Context, ref relay.Ref, consumer string, limit int) ([]relay.Entry, error) {
	entries, err := j.Redis.ReadJournal(ctx, stockgate.Ref(ref), consumer, limit)
	if err != nil {
		return nil, err
	}
	out := make([]relay.Entry, len(entries))
	for i, e := range entries {
		out[i] = relay.Entry(e)
	}
	return out, nil
}

// Ack implements relay.Journal.
func (j Journal) Ack(ctx context.Context, ref relay.Ref, ids []string) error {
	return j.Redis.Ack(ctx, stockgate.Ref(ref), ids)
}

// Len implements relay.Journal.
func (j Journal) Len(ctx context.Context, ref relay.Ref) (int64, error) {
	a, err := j.Redis.Audit(ctx, stockgate.Ref(ref))
	return a.JournalLen, err
}
