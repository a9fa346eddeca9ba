package stockgate

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soldSale has n purchases, of all kinds in turn.
func soldSale(n int) Snapshot {
	now := time.Now().UTC().Truncate(time.Millisecond)
	total := int64(n)
	s := Snapshot{
		Config: openConfig(), Totals: map[string]int64{"1": total, "2": 5}, Stock: map[string]int64{"1": total, "2": 5},
		Adjusted: []string{"7"},
	}
	for i := range n {
		e := Entry{OrderSN: strconv.Itoa(1000 + i), UserID: "u" + strconv.Itoa(i/2), Lines: lines(1)}
		switch i % 5 {
		case 0:
			e.Status, e.ExpiresAt = StatusCreated, deadline
		case 1:
			e.Status = StatusPaid
		case 2:
			e.Status, e.Landed = StatusQueued, true
		case 3:
			e.Status, e.Reason, e.EndedAt = StatusClosed, "expired", now
		case 4:
			e.Status, e.Reason, e.EndedAt = StatusFailed, "sold_out", now
		}
		if !e.terminal() {
			s.Stock["1"]--
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

func TestPreloadBuildsTheSnapshot(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		const n = 3*buildChunk + 5
		s := soldSale(n)
		require.NoError(t, e.Preload(ctx, e.activityID, s))
		e.check()
		require.ErrorIs(t, e.Preload(ctx, e.activityID, s), ErrGateExists)
		e.check()
		a, err := e.Audit(ctx, e.activityID)
		require.NoError(t, err)
		require.Equal(t, s.Config, a.Config)
		require.Equal(t, int64(n), a.EntriesLen)
		require.Equal(t, s.Stock["1"], a.SKUs["1"].Left)
		require.Equal(t, Counts{Left: 5, Total: 5}, a.SKUs["2"])

		seen := map[string]Entry{}
		for cursor := uint64(0); ; {
			page, next, err := e.Entries(ctx, e.activityID, cursor, 100)
			require.NoError(t, err)
			for _, en := range page {
				seen[en.OrderSN] = en
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
		require.Len(t, seen, n)
		for _, want := range s.Entries {
			want.Landed = !want.terminal()
			require.Equal(t, want, seen[want.OrderSN])
		}
		activityIDs, err := e.Registered(ctx)
		require.NoError(t, err)
		require.Contains(t, activityIDs, e.activityID)
		require.Equal(t, LimitReached, e.reserve("1", "u0", lines(1)).Outcome)
	})
}

func TestPreloadRemovesLeftoversExceptJournal(t *testing.T) {
	eachServer(t, Options{}, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.open(openConfig(), 9)
		e.reserve("1", "ann", lines(1))
		e.release("2", "bob", lines(1), "expired")
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "a", SKUID: "1", Delta: 1}))
		require.NoError(t, e.rdb.Del(ctx, keyOf(e.activityID, "gate")).Err())
		e.open(openConfig(), 3)
		require.Empty(t, e.image().entries)
		require.NoError(t, e.Adjust(ctx, e.activityID, Adjustment{ID: "a", SKUID: "1", Delta: 1}))
		require.Equal(t, Counts{Left: 4, Total: 4}, e.counts("1"))
		journal := e.read("relay", 9)
		require.Len(t, journal, 1)
		e.ack(journal...)
		e.settle("1", "ann", lines(1), StepLanded) // as the message lands
		require.Equal(t, Counts{Left: 3, Held: 1, Total: 4}, e.counts("1"))
	})
}

func TestPreloadRejectsInvalidSnapshots(t *testing.T) {
	g := New(nil, Options{}) // nothing may reach Redis
	for name, spoil := range map[string]func(*Snapshot){
		"no SKU":          func(s *Snapshot) { s.Stock, s.Totals = nil, nil },
		"left":            func(s *Snapshot) { s.Stock["1"]++ },
		"total missing":   func(s *Snapshot) { delete(s.Totals, "2") },
		"stock missing":   func(s *Snapshot) { delete(s.Stock, "2") },
		"foreign SKU":     func(s *Snapshot) { s.Entries[0].Lines = lines(0, 0, 1) },
		"twice":           func(s *Snapshot) { s.Entries = append(s.Entries, s.Entries[0]) },
		"malformed SKU":   func(s *Snapshot) { s.Stock["x"], s.Totals["x"] = 1, 1 },
		"malformed entry": func(s *Snapshot) { s.Entries[0].UserID = "a|b" },
		"status":          func(s *Snapshot) { s.Entries[0].Status = "refunded" },
		"no reason":       func(s *Snapshot) { s.Entries[3].Reason = "" },
		"no end":          func(s *Snapshot) { s.Entries[3].EndedAt = time.Time{} },
		"adjustment":      func(s *Snapshot) { s.Adjusted = []string{"|"} },
		"state":           func(s *Snapshot) { s.State = "scheduled" },
		"window":          func(s *Snapshot) { s.EndsAt = time.Time{} },
		"limit":           func(s *Snapshot) { s.PerUserLimit = 0 },
		"version":         func(s *Snapshot) { s.Version = maxExact },
	} {
		s := soldSale(5)
		spoil(&s)
		require.Error(t, g.Preload(t.Context(), "1", s), name)
	}
}
