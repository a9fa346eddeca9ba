package clocks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/telemetry"
)

// world is a process with a clock, the clock of a dependency, and a log.
type world struct {
	*clocks.Monitor
	tel   *telemetry.Telemetry
	now   time.Time
	ahead time.Duration // of the process
	slow  time.Duration // duration of the reading
	down  error
	log   bytes.Buffer
}

func newWorld(t *testing.T) *world {
	w := &world{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	w.tel, _ = telemetry.Recording()
	w.tel.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	var err error
	w.Monitor, err = clocks.New("test", w.tel, func() time.Time { return w.now.Add(w.ahead) }, clocks.Clock{
		Name: "database", Read: func(context.Context) (time.Time, error) {
			w.now = w.now.Add(w.slow)
			return w.now, w.down
		},
	})
	require.NoError(t, err)
	return w
}

// measure measures once and returns the log of it.
func (w *world) measure(t *testing.T) string {
	w.log.Reset()
	w.Measure(t.Context())
	return w.log.String()
}

func (w *world) metrics() string {
	page := httptest.NewRecorder()
	w.tel.Metrics.ServeHTTP(page, httptest.NewRequestWithContext(context.Background(), "GET", "/metrics", nil))
	return page.Body.String()
}

func TestOffsetsRaiseAlarmsAndStopDecisions(t *testing.T) {
	for _, sign := range []time.Duration{1, -1} {
		w := newWorld(t)
		ran := 0
		round := w.Gate(func(context.Context) error { ran++; return nil })
		w.ahead = sign * 200 * time.Millisecond
		require.Empty(t, w.measure(t))
		require.NoError(t, w.Check())
		w.ahead = sign * 300 * time.Millisecond
		require.Contains(t, w.measure(t), "clock offset over 250 ms")
		require.NoError(t, w.Check())
		require.Empty(t, w.measure(t), "an alarm once an hour")
		w.now = w.now.Add(time.Hour)
		require.Contains(t, w.measure(t), "clock offset over 250 ms")
		require.NoError(t, round(t.Context()))
		require.Equal(t, 1, ran)

		w.ahead = sign * 5 * time.Minute
		require.Contains(t, w.measure(t), "level=ERROR")
		require.ErrorIs(t, w.Check(), clocks.ErrOffset)
		require.ErrorContains(t, w.Check(), "database")
		require.NoError(t, round(t.Context()))
		require.Equal(t, 1, ran, "it decides nothing by time")
		require.Contains(t, w.metrics(), "clock_offset")
		require.Equal(t, sign < 0, strings.Contains(w.metrics(), "} -300"), w.metrics())

		w.down = errors.New("unreachable")
		require.Empty(t, w.measure(t))
		require.ErrorIs(t, w.Check(), clocks.ErrOffset, "as before")
		w.now = w.now.Add(time.Minute)
		require.NotContains(t, w.metrics(), "clock_offset", "no value without a measurement")
		w.down, w.ahead = nil, 0
		require.Contains(t, w.measure(t), "clock agrees again")
		require.NoError(t, w.Check())
		require.NoError(t, round(t.Context()))
		require.Equal(t, 2, ran)
	}
}

// The clock of a dependency that responds late is not known better than its response time.
func TestASlowDependencyIsNoWrongClock(t *testing.T) {
	w := newWorld(t)
	w.slow = 1900 * time.Millisecond
	require.Empty(t, w.measure(t))
	w.slow, w.ahead = 30*time.Second, time.Second // a stopped process
	require.Empty(t, w.measure(t))
	require.NoError(t, w.Check())
	w.ahead = time.Minute
	w.measure(t)
	require.Error(t, w.Check())
}
