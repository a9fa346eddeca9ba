package core

import (
	"testing"
	"time"
)

func TestPhaseAndGateDue(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	early := at(-25 * time.Hour)
	for name, c := range map[string]struct {
		a     Activity
		phase string
		due   bool
	}{
		"draft":               {Activity{State: ActivityDraft, StartsAt: at(-1), EndsAt: at(time.Hour)}, "draft", false},
		"scheduled":           {Activity{State: ActivityPublished, StartsAt: at(1), EndsAt: at(time.Hour)}, "scheduled", true},
		"open":                {Activity{State: ActivityPublished, StartsAt: now, EndsAt: at(1)}, "open", true},
		"paused":              {Activity{State: ActivityPaused, StartsAt: at(-1), EndsAt: at(time.Hour)}, "paused", true},
		"ended by time":       {Activity{State: ActivityPublished, StartsAt: at(-time.Hour), EndsAt: now}, "ended", true},
		"ended while paused":  {Activity{State: ActivityPaused, StartsAt: at(-time.Hour), EndsAt: now}, "ended", true},
		"ended for a day":     {Activity{State: ActivityPublished, EndsAt: at(-24 * time.Hour)}, "ended", false},
		"ended, still held":   {Activity{State: ActivityPublished, EndsAt: at(-48 * time.Hour), Items: []Stock{{Reserved: 1}}}, "ended", true},
		"ended early":         {Activity{State: ActivityEnded, EndsAt: at(time.Hour), EndedAt: &now}, "ended", true},
		"ended early, a day ": {Activity{State: ActivityEnded, EndsAt: at(time.Hour), EndedAt: &early}, "ended", false},
	} {
		if got := c.a.Phase(now); got != c.phase {
			t.Errorf("%s: phase %s, want %s", name, got, c.phase)
		}
		if got := c.a.GateDue(now); got != c.due {
			t.Errorf("%s: gate due %v", name, got)
		}
	}
}
