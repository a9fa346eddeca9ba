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
	"go.opentelemetry.io/otel/metric/noop"
)

func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := NewAccess("redis", "gate", slog.New(slog.NewTextHandler(&out, nil)), noop.Int64Counter{})
		denied := errors.New("remote error: tls: certificate required")
		require.NoError(t, a.Ready(), "unreachable: the process takes calls")
		for range 121 {
			a.Denied(t.Context(), denied)
			require.ErrorIs(t, a.Ready(), denied)
			require.ErrorContains(t, a.Ready(), "redis of the gate denies access: remote error")
			time.Sleep(time.Second)
		}
		require.Equal(t, 3, strings.Count(out.String(), `msg="redis denies access" redis=gate error="remote`), "once a minute")
		a.Served()
		require.Error(t, a.Ready(), "a call of another kind was refused a moment ago")
		time.Sleep(deniedFor)
		require.NoError(t, a.Ready())
		a.Denied(t.Context(), denied)
		require.NoError(t, a.Ready(), "it was let in for long enough: an outage")
	})
}
