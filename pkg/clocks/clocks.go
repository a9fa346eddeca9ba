// Package clocks measures how far the clock of a process is ahead of the clocks of its database and its Redis, exports
// the offsets, logs them, and reports whether the process may decide by time.
package clocks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/telemetry"
)

// Offsets of a clock, ahead or behind.
const (
	WarnOver = 250 * time.Millisecond // from here on it is logged
	StopOver = 2 * time.Second        // from here on the process decides nothing by time
)

const (
	every     = 5 * time.Second  // between two measurements
	timeout   = 2 * time.Second  // of reading one clock
	stale     = 15 * time.Second // since the last measurement: the process was stopped, or its clock was set
	fresh     = 30 * time.Second // age up to which an offset is exported
	warnAgain = time.Hour        // between two log lines about one clock that stays wrong
)

// The errors of Check.
var (
	ErrOffset     = errors.New("clock offset over 2 s: nothing is decided by time")
	ErrUnmeasured = errors.New("clock offset not measured: nothing is decided by time")
)

// Monitor measures the offsets of a process to other clocks. It is safe for concurrent use.
type Monitor struct {
	now    func() time.Time
	log    *slog.Logger
	clocks []Clock

	measuring chan struct{} // holds one value while a caller measures

	mu       sync.Mutex
	offsets  map[string]offset // the latest measurement, by name of the clock
	measured time.Time         // when all clocks were last read, with or without success, by the clock of the process
}

// level is what an offset amounts to.
type level int

const (
	agrees level = iota
	warns        // over 250 ms
	stops        // over 2 s
)

func levelOf(ahead time.Duration) level {
	switch {
	case ahead > StopOver:
		return stops
	case ahead > WarnOver:
		return warns
	}
	return agrees
}

type offset struct {
	ahead  time.Duration // of the process
	level  level
	at     time.Time // of the measurement, by the clock of the process
	warned time.Time // of the latest log line; zero without one
}

// New makes a monitor that has measured nothing yet. now is the clock of the process; nil for time.Now. The metric is
// flashsale.clock.offset.
func New(tel *telemetry.Telemetry, now func() time.Time, clocks ...Clock) (*Monitor, error) {
	if now == nil {
		now = time.Now
	}
	m := &Monitor{
		now: now, log: tel.Log, clocks: clocks, measuring: make(chan struct{}, 1), offsets: map[string]offset{},
	}
	_, err := tel.Meter.Float64ObservableGauge("flashsale.clock.offset", metric.WithUnit("s"),
		metric.WithDescription("How far the clock of the process is ahead of that of the dependency; negative: behind. "+
			"No value while the dependency does not respond."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for name, ahead := range m.Offsets() {
				o.Observe(ahead.Seconds(), metric.WithAttributes(telemetry.AttrDependency.String(name)))
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Component measures every 5 s. It never fails.
func (m *Monitor) Component(name string) lifecycle.Component {
	return lifecycle.Component{Name: name + " clocks", Run: func(ctx context.Context) error {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			m.Measure(ctx)
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}}
}

// Measure reads every clock once, each with a time-out of 2 s, and logs those whose line is due.
func (m *Monitor) Measure(ctx context.Context) { m.measureIf(ctx, func() bool { return true }) }

// measureIf waits until no other caller measures. Then it measures if the condition still holds.
func (m *Monitor) measureIf(ctx context.Context, condition func() bool) {
	select {
	case m.measuring <- struct{}{}:
		defer func() { <-m.measuring }()
	case <-ctx.Done():
		return
	}
	if !condition() {
		return
	}
	for _, c := range m.clocks {
		m.measure(ctx, c)
	}
	if ctx.Err() != nil {
		return // the caller ended, not the dependency
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.measured = m.now()
}

// measure reads one clock. Its servers were read at some moment of the round trip, so half of the round trip is the
// uncertainty of the offset. What a measurement leaves open stays as it was: a slow dependency neither is a wrong clock
// nor proves that the clock is right again.
func (m *Monitor) measure(ctx context.Context, c Clock) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := m.now()
	servers, err := c.Read(ctx)
	if err != nil || len(servers) == 0 {
		return
	}
	half := (m.now().Sub(began) / 2).Abs()
	here := began.Add(half)
	var ahead time.Duration // of the server that differs most
	for _, there := range servers {
		if d := here.Sub(there); d.Abs() > ahead.Abs() {
			ahead = d
		}
	}
	m.note(ctx, c.Name, ahead, half)
}

// note keeps a measurement, and logs it if the level changed, or if the last log line is an hour old.
func (m *Monitor) note(ctx context.Context, name string, ahead, uncertainty time.Duration) {
	m.mu.Lock()
	last := m.offsets[name]
	o := offset{ahead: ahead, at: m.now(), warned: last.warned}
	o.level = min(max(last.level, levelOf(ahead.Abs()-uncertainty)), levelOf(ahead.Abs()+uncertainty))
	changed := o.level != last.level
	if uncertainty > WarnOver && ahead.Abs() <= uncertainty+WarnOver && !changed {
		m.mu.Unlock()
		return // no result: the offset would be that of the round trip
	}
	warn := o.level != agrees && (changed || o.at.Sub(last.warned).Abs() >= warnAgain)
	if warn {
		o.warned = o.at
	}
	m.offsets[name] = o
	m.mu.Unlock()
	attrs := []any{"clock", name, "ahead_ms", o.ahead.Milliseconds()}
	switch {
	case warn && o.level == stops:
		m.log.ErrorContext(ctx, "clock offset over 2 s, nothing is decided by time", attrs...)
	case warn:
		m.log.WarnContext(ctx, "clock offset over 250 ms", attrs...)
	case changed:
		m.log.InfoContext(ctx, "clock agrees again", attrs...)
	}
}

// Check returns nil while the process may decide by time. Otherwise the error is an ErrOffset, which names the clocks
// that differ by more than 2 s, or an ErrUnmeasured. A dependency that does not respond counts as it did before; its
// clock decides nothing meanwhile.
//
// Check reads the clocks only if the last measurement is older than 15 s: in a process that has just started, or was
// stopped. Then it takes up to 2 s for each clock.
func (m *Monitor) Check(ctx context.Context) error {
	if m.isStale() {
		m.measureIf(ctx, m.isStale)
		if m.isStale() {
			return ErrUnmeasured
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	for _, c := range m.clocks {
		if o := m.offsets[c.Name]; o.level == stops {
			list = append(list, fmt.Sprintf("%s %+d ms", c.Name, o.ahead.Milliseconds()))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%w (%s)", ErrOffset, strings.Join(list, ", "))
}

// isStale reports whether the last measurement is too old to decide by. Without clocks there is nothing to measure.
// Both times are wall clock times, so that a clock that was set counts too.
func (m *Monitor) isStale() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.clocks) > 0 && m.now().Round(0).Sub(m.measured.Round(0)).Abs() > stale
}

// Gate returns a round of work that runs only while Check returns nil. A round that is left out is no failure: the
// measurement logs the offset.
func (m *Monitor) Gate(round func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if m.Check(ctx) != nil {
			return nil
		}
		return round(ctx)
	}
}

// Offsets returns how far the clock of the process is ahead, by name of the clock, as measured in the last 30 s.
func (m *Monitor) Offsets() map[string]time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make(map[string]time.Duration, len(m.offsets))
	for name, o := range m.offsets {
		if m.now().Sub(o.at) < fresh {
			list[name] = o.ahead
		}
	}
	return list
}
