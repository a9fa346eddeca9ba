package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADescriptionHasTheEarlierEnd(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	planned, early, late := now.Add(time.Hour), now.Add(-time.Minute), now.Add(2*time.Hour)
	for name, c := range map[string]struct {
		activity Activity
		want     time.Time
	}{
		"running":          {Activity{State: ActivityPublished, EndsAt: planned}, planned},
		"ended early":      {Activity{State: ActivityEnded, EndsAt: planned, EndedAt: &early}, early},
		"ended afterwards": {Activity{State: ActivityEnded, EndsAt: planned, EndedAt: &late}, planned},
		"ended, no time":   {Activity{State: ActivityEnded, EndsAt: planned}, planned},
	} {
		require.Equal(t, c.want, c.activity.info(now).EndsAt, name)
	}
}
