package shop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig"
)

// NoIncidents requires that the process logged no error: incidents, panics and responses with status 500 are
// errors in the log; an outage causes warnings at most.
func NoIncidents(t *testing.T, p *rig.Process) {
	t.Helper()
	for line := range strings.Lines(p.Log(t)) {
		var entry struct {
			Level string `json:"level"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &entry), "%s logged: %s", p.Name, line)
		require.NotEqual(t, "ERROR", entry.Level, "%s logged: %s", p.Name, line)
	}
}
