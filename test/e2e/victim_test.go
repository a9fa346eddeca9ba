package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/e2e/rig"
)

// repairSoon shortens the pauses after which the services repeat what got lost on the way.
func repairSoon() []rig.Option {
	return []rig.Option{
		rig.Env("INVENTORY_REPUBLISH_AFTER", "5s"), rig.Env("INVENTORY_REJOURNAL_AFTER", "5s"),
		rig.Env("INVENTORY_SWEEP_EVERY", "1s"), rig.Env("JOURNAL_CLAIM_AFTER", "2s"),
		rig.Env("ORDER_SWEEP_AFTER", "5s"), rig.Env("ORDER_SWEEP_EVERY", "1s"),
	}
}

// victim is what is killed, and how it comes back.
type victim struct {
	name        string
	kill, start func(t testing.TB)
}

// noAlarms demands that an outage calls nobody: incidents, alarms, panics and answers 500 are errors in the log, and all
// else is at most a warning.
func noAlarms(t *testing.T, p *rig.Process) {
	t.Helper()
	for line := range strings.Lines(p.Log(t)) {
		var entry struct {
			Level string `json:"level"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), "%s logged: %s", p.Name, line)
		require.NotEqual(t, "ERROR", entry.Level, "%s logged: %s", p.Name, line)
	}
}

func killSeed(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv("KILL_SEED")
	if text == "" {
		return rand.Uint64N(1_000_000)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "KILL_SEED")
	return seed
}

func between(rnd *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rnd.Int64N(int64(most-least)))
}
