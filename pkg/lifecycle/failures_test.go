package lifecycle

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What does not heal is logged when it begins, then once a minute with what it waits for, and when it ends.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil)).With("topic", "deductions")
		var f Failures
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSpace(out.String()), "\n")
		}
		f.Observe(t.Context(), log, "publish", nil)
		require.Empty(t, out.String(), "work that has never failed is no news")
		refused := errors.New("access denied")
		for range 10 * 60 { // ten minutes
			f.Observe(t.Context(), log, "publish", refused)
			time.Sleep(time.Second)
		}
		require.Equal(t, 600, f.InARow())
		for i, line := range lines() {
			require.Contains(t, line, "level=WARN")
			require.Contains(t, line, `error="access denied"`)
			require.Contains(t, line, "topic=deductions")
			require.Equal(t, i == 0, strings.Contains(line, `msg="publish failed, will retry"`))
			require.Equal(t, i > 0, strings.Contains(line, `msg="publish still fails"`) && strings.Contains(line, "since="))
			require.Less(t, i, 10)
		}
		f.Observe(t.Context(), log, "publish", nil)
		require.Zero(t, f.InARow())
		require.Contains(t, lines()[0], `msg="publish works again"`)
		f.Observe(t.Context(), log, "publish", refused)
		require.Contains(t, lines()[0], `msg="publish failed, will retry"`, "the next outage is another one")
	})
}
