// Package clocks measures how far the clock of a process is ahead of the clocks of its database and its Redis, exports
// the offsets, raises alarms, and reports whether the process may decide by time.
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

const (
	every      = 5 * time.Second        // between two measurements
	timeout    = 2 * time.Second        // of reading one clock
	fresh      = 30 * time.Second       // age up to which a measurement is exported
	alarmOver  = 250 * time.Millisecond // offset from which an alarm is raised
	stopOver   = 2 * time.Second        // offset from which the process decides nothing by time
	alarmAgain = time.Hour              // between two alarms about one clock that stays wrong
)

// ErrOffset is the error of Check.
var ErrOffset = errors.New("clock offset over 2 s: nothing is decided by time")

// Clock is the clock of a dependency: database or redis.
type Clock struct {
	Name string
	Read func(ctx context.Context) (time.Time, error)
}

// Monitor measures the offsets of a process to other clocks. It is safe for concurrent use.
type Monitor struct {
	now    func() time.Time
	log    *slog.Logger
	clocks []Clock

	mu      sync.Mutex
	offsets map[string]offset // the latest measurement, by name of the clock
}

// level is what an offset amounts to.
type level int

const (
	agrees level = iota
	alarms       // over 250 ms
	stops        // over 2 s
)

type offset struct {
	ahead   time.Duration // of the process
	level   level
	at      time.Time // of the measurement, by the clock of the process
	alarmed time.Time // of the latest alarm; zero without one
}

// New makes a monitor that has measured nothing yet. now is the clock of the process; nil for time.Now. The metric is
// flashsale.<service>.clock.offset.
func New(service string, tel *telemetry.Telemetry, now func() time.Time, clocks ...Clock) (*Monitor, error) {
	if now == nil {
		now = time.Now
	}
	m := &Monitor{now: now, log: tel.Log, clocks: clocks, offsets: map[string]offset{}}
	_, err := tel.Meter.Float64ObservableGauge("flashsale."+service+".clock.offset", metric.WithUnit("s"),
		metric.WithDescription("How far the clock of the process is ahead of that of the dependency; negative: behind. "+
			"No value while the dependency does not respond."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for name, ahead := range m.fresh() {
				o.Observe(ahead.Seconds(), metric.WithAttributes(telemetry.AttrDependency.String(name)))
			}
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Component measures every 5 s. It never fails: a clock that does not respond keeps its last offset for Check.
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

// Measure reads every clock once, each with a time-out of 2 s, and raises the alarms that are due.
func (m *Monitor) Measure(ctx context.Context) {
	for _, c := range m.clocks {
		m.measure(ctx, c)
	}
}

// measure reads one clock. The time read is that of some moment of the round trip, so half of the round trip is the
// uncertainty of the offset: a slow dependency must not count as a wrong clock.
func (m *Monitor) measure(ctx context.Context, c Clock) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := m.now()
	there, err := c.Read(ctx)
	if err != nil {
		return
	}
	half := m.now().Sub(began) / 2
	o := offset{ahead: began.Add(half).Sub(there), at: m.now()}
	switch certain := o.ahead.Abs() - half.Abs(); {
	case certain > stopOver:
		o.level = stops
	case certain > alarmOver:
		o.level = alarms
	}
	m.note(ctx, c.Name, o)
}

// note keeps a measurement and raises an alarm if the level changed, or if the last alarm is an hour old.
func (m *Monitor) note(ctx context.Context, name string, o offset) {
	m.mu.Lock()
	last := m.offsets[name]
	o.alarmed = last.alarmed
	changed := o.level != last.level
	raise := o.level != agrees && (changed || o.at.Sub(last.alarmed).Abs() >= alarmAgain)
	if raise {
		o.alarmed = o.at
	}
	m.offsets[name] = o
	m.mu.Unlock()
	attrs := []any{"clock", name, "ahead_ms", o.ahead.Milliseconds()}
	switch {
	case raise && o.level == stops:
		m.log.ErrorContext(ctx, "clock offset over 2 s, nothing is decided by time", attrs...)
	case raise:
		m.log.WarnContext(ctx, "clock offset over 250 ms", attrs...)
	case changed:
		m.log.InfoContext(ctx, "clock agrees again", attrs...)
	}
}

// Check returns nil while the process may decide by time. Otherwise the error, which is an ErrOffset, names the clocks
// that differ by more than 2 s. A clock that does not respond counts as it did before.
func (m *Monitor) Check() error {
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

// Gate returns a round of work that runs only while Check returns nil. A round that is left out is no failure: the
// alarm is raised by the measurement.
func (m *Monitor) Gate(round func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if m.Check() != nil {
			return nil
		}
		return round(ctx)
	}
}

// fresh returns the offsets that were measured in the last 30 s, by name of the clock.
func (m *Monitor) fresh() map[string]time.Duration {
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
