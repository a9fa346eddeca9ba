package store

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
)

func TestDrawnIDsRise(t *testing.T) {
	d := drawnIDs{random: rand.Int64N}
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	seen := map[int64]bool{}
	var last int64
	for i := range 20_000 {
		id := d.next(now.Add(time.Duration(i/100) * time.Millisecond))
		require.Greater(t, id, last)
		require.False(t, seen[id])
		require.True(t, contract.ValidID(text(id)))
		require.Len(t, text(id), 15)
		require.Less(t, id, int64(1)<<53, "exact in a double")
		seen[id], last = true, id
	}
	require.Positive(t, d.next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), "a clock before 2025")
}

// TestProcessesDrawDifferentIDs: a process that was restored to an earlier state does not draw the ids again that were
// drawn since.
func TestProcessesDrawDifferentIDs(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	first := map[int64]bool{}
	for range 100 {
		first[(&drawnIDs{random: rand.Int64N}).next(now)] = true
	}
	require.Greater(t, len(first), 50)
}
