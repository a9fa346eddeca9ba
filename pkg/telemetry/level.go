package telemetry

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// levels holds up-down counters by name.
type levels struct {
	mu     sync.Mutex
	byName map[string]*atomic.Int64
}

// Level returns an up-down counter that is cheap enough for every request: an addition is one atomic operation, and
// the value is read at each scrape. Calls with the same name share the counter.
func (t *Telemetry) Level(name string, opts ...metric.Int64ObservableUpDownCounterOption) (*atomic.Int64, error) {
	t.levels.mu.Lock()
	defer t.levels.mu.Unlock()
	if level := t.levels.byName[name]; level != nil {
		return level, nil
	}
	level := new(atomic.Int64)
	_, err := t.Meter.Int64ObservableUpDownCounter(name, append(opts,
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(level.Load())
			return nil
		}))...)
	if t.levels.byName == nil {
		t.levels.byName = map[string]*atomic.Int64{}
	}
	t.levels.byName[name] = level
	return level, err
}
