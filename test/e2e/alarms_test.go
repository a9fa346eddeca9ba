package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/e2e/rig"
)

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
