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
	Purchases   int64         // purchases that the gate has accepted or adopted, also those it has trimmed
	Build       string        // changes when the gate is built again; then Purchases may be less than before
}

// Backlog reads how far landing is behind. One script call, O(1).
func (g *Gate) Backlog(ctx context.Context, activityID string) (Backlog, error) {
	reply, err := g.runStrings(ctx, scriptBacklog, activityID)
	if err != nil {
		return Backlog{}, err
	}
	if len(reply) != 5 {
		return Backlog{}, fmt.Errorf("stockgate: backlog returned %d values", len(reply))
	}
	b := Backlog{Build: reply[4]}
	var ms int64
	for i, dst := range []*int64{&b.JournalLen, &ms, &b.UnlandedLen, &b.Purchases} {
		if *dst, err = strconv.ParseInt(reply[i], 10, 64); err != nil {
			return Backlog{}, fmt.Errorf("stockgate: backlog: %w", err)
		}
	}
	b.OldestAge = time.Duration(ms) * time.Millisecond
	return b, nil
}
