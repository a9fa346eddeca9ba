package stockgate

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Backlog is how far landing is behind a gate at one moment.
type Backlog struct {
	JournalLen  int64         // journaled purchases not yet acked
	OldestAge   time.Duration // of the oldest entry in the journal; 0 if the journal is empty
	UnlandedLen int64         // purchases not known to be in the ledger
	UnlandedAge time.Duration // since the oldest of them was journaled, the last time if that was repeated; 0 without one
	Purchases   int64         // purchases that the gate has accepted or adopted, also those it has trimmed
	Build       string        // changes when the gate is built again; then Purchases may be less than before
}

// Backlog reads how far landing is behind. One script call.
func (g *Gate) Backlog(ctx context.Context, activityID string) (Backlog, error) {
	reply, err := g.runStrings(ctx, scriptBacklog, activityID)
	if err != nil {
		return Backlog{}, err
	}
	if len(reply) != 6 {
		return Backlog{}, fmt.Errorf("stockgate: backlog returned %d values", len(reply))
	}
	b := Backlog{Build: reply[5]}
	var oldest, unlanded int64 // ms
	for i, dst := range []*int64{&b.JournalLen, &oldest, &b.UnlandedLen, &unlanded, &b.Purchases} {
		if *dst, err = strconv.ParseInt(reply[i], 10, 64); err != nil {
			return Backlog{}, fmt.Errorf("stockgate: backlog: %w", err)
		}
	}
	b.OldestAge = time.Duration(oldest) * time.Millisecond
	b.UnlandedAge = time.Duration(unlanded) * time.Millisecond
	return b, nil
}
