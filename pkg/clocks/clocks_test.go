package clocks_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/telemetry"
)

// world is a process with a clock, the clock of a dependency, and a log.
type world struct {
	*clocks.Monitor
	tel   *telemetry.Telemetry
	now   time.Time
	ahead time.Duration   // of the process
	nodes []time.Duration // by which further servers of the dependency are ahead
	slow  time.Duration   // duration of the reading
	down  error
	reads int
	log   bytes.Buffer
}

func newWorld(t *testing.T) *world {
	w := &world{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	w.tel, _ = telemetry.Recording()
	w.tel.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	var err error
	w.Monitor, err = clocks.New(w.tel, func() time.Time { return w.now.Add(w.ahead) }, clocks.Clock{
		Name: "database", Read: func(ctx context.Context) ([]time.Time, error) {
			w.reads++
			w.now = w.now.Add(w.slow)
			times := []time.Time{w.now}
			for _, ahead := range w.nodes {
				times = append(times, w.now.Add(ahead))
			}
			return times, cmp.Or(w.down, ctx.Err())
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

func TestOffsetsAreLoggedAndStopDecisions(t *testing.T) {
	for _, sign := range []int{1, -1} {
		w := newWorld(t)
		ran := 0
		round := w.Gate(func(context.Context) error { ran++; return nil })
		w.ahead = time.Duration(sign*200) * time.Millisecond
		require.Empty(t, w.measure(t))
		require.NoError(t, w.Check(t.Context()))
		w.ahead = time.Duration(sign*300) * time.Millisecond
		require.Contains(t, w.measure(t), "clock offset over 250 ms")
		require.NoError(t, w.Check(t.Context()))
		require.Empty(t, w.measure(t), "a log line once an hour")
		w.now = w.now.Add(time.Hour)
		require.Contains(t, w.measure(t), "clock offset over 250 ms")
		require.NoError(t, round(t.Context()))
		require.Equal(t, 1, ran)

		w.ahead = time.Duration(sign*5) * time.Minute
		require.Contains(t, w.measure(t), "level=ERROR")
		require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset)
		require.ErrorContains(t, w.Check(t.Context()), "database")
		require.NoError(t, round(t.Context()))
		require.Equal(t, 1, ran, "it decides nothing by time")
		require.Contains(t, w.metrics(), "clock_offset")
		require.Equal(t, sign < 0, strings.Contains(w.metrics(), "} -300"), w.metrics())

		w.down = errors.New("unreachable")
		require.Empty(t, w.measure(t))
		require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset, "as before")
		w.now = w.now.Add(time.Minute)
		require.NotContains(t, w.metrics(), "clock_offset", "no value without a measurement")
		require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset, "as before")
		w.down, w.ahead = nil, 0
		require.Contains(t, w.measure(t), "clock agrees again")
		require.NoError(t, w.Check(t.Context()))
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
	require.NoError(t, w.Check(t.Context()))
	require.NotContains(t, w.metrics(), "clock_offset", "the offset would be that of the response")
	w.ahead = time.Minute
	w.measure(t)
	require.Error(t, w.Check(t.Context()))
	require.Contains(t, w.metrics(), "clock_offset")
}

// A measurement that fits a wrong clock as well as a right one does not prove that the clock is right again.
func TestASlowMeasurementLiftsNothing(t *testing.T) {
	w := newWorld(t)
	w.ahead = 3 * time.Second
	w.measure(t)
	require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset)
	w.ahead, w.slow = 2500*time.Millisecond, 1900*time.Millisecond
	require.Empty(t, w.measure(t))
	require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset)
	w.ahead = 500 * time.Millisecond
	require.Contains(t, w.measure(t), "over 250 ms", "certainly below 2 s")
	require.NoError(t, w.Check(t.Context()))
}

// A process that has just started, was stopped, or whose clock was set, measures before it decides.
func TestWithoutARecentMeasurementCheckMeasures(t *testing.T) {
	w := newWorld(t)
	w.ahead = time.Minute
	require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset, "at the start")
	w.ahead = 0
	require.NoError(t, w.Check(t.Context()), "the clock was set")
	reads := w.reads
	require.NoError(t, w.Check(t.Context()))
	require.Equal(t, reads, w.reads, "nothing is read")
	w.now, w.ahead = w.now.Add(time.Hour), -time.Hour // a machine that was suspended, with its clock
	require.NoError(t, w.Check(t.Context()), "the clock of the process shows no difference")
	w.now = w.now.Add(16 * time.Second)
	require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset)

	ended, end := context.WithCancel(t.Context())
	end()
	w.now, w.ahead = w.now.Add(time.Hour), 0
	require.ErrorIs(t, w.Check(ended), clocks.ErrUnmeasured, "a call that ended proves nothing")
	w.down = errors.New("unreachable")
	require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset, "as before")
	w = newWorld(t)
	w.down = errors.New("unreachable")
	require.NoError(t, w.Check(t.Context()), "nothing is decided by the clock of a dependency that does not respond")
}

// Of several servers the one that differs most counts.
func TestEachMasterOfAClusterIsMeasured(t *testing.T) {
	w := newWorld(t)
	w.nodes = []time.Duration{time.Second, -5 * time.Second, 2 * time.Second}
	require.Contains(t, w.measure(t), "ahead_ms=5000")
	require.ErrorIs(t, w.Check(t.Context()), clocks.ErrOffset)
	require.Equal(t, map[string]time.Duration{"database": 5 * time.Second}, w.Offsets())
}

func TestAProcessWithoutOtherClocksDecides(t *testing.T) {
	m, err := clocks.New(telemetry.Discard(t), nil)
	require.NoError(t, err)
	require.NoError(t, m.Check(t.Context()))
}

func TestTheClockOfRedisIsRead(t *testing.T) {
	mini := miniredis.RunT(t)
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	mini.SetTime(at)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	times, err := clocks.Redis(rdb).Read(t.Context())
	require.NoError(t, err)
	require.Len(t, times, 1)
	require.True(t, at.Equal(times[0]))
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{mini.Addr()}, MaxRetries: -1})
	t.Cleanup(func() { _ = cluster.Close() })
	times, err = clocks.Redis(cluster).Read(t.Context())
	require.NoError(t, err)
	require.Len(t, times, 1)
	require.True(t, at.Equal(times[0]))
	mini.SetError("LOADING Redis is loading the dataset in memory")
	_, err = clocks.Redis(rdb).Read(t.Context())
	require.Error(t, err)
}

// A caller does not wait longer than its context while another one reads a clock that hangs.
func TestACallerThatEndsDoesNotWaitForAMeasurement(t *testing.T) {
	reading, release := make(chan struct{}), make(chan struct{})
	m, err := clocks.New(telemetry.Discard(t), nil, clocks.Database(func(context.Context) (time.Time, error) {
		close(reading)
		<-release
		return time.Now(), nil
	}))
	require.NoError(t, err)
	first := make(chan error, 1)
	go func() { first <- m.Check(t.Context()) }()
	<-reading
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, m.Check(ended), clocks.ErrUnmeasured)
	close(release)
	require.NoError(t, <-first)
}
