package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
)

// memoryEvery is how often the memory of Redis is measured. At 10,000 purchases a second, about 10 MB are accepted in
// between.
const memoryEvery = time.Second

// MemoryMeter is the method of *stockgate.Gate that a MemoryWatch uses.
type MemoryMeter interface {
	MeasureMemory(ctx context.Context) ([]stockgate.Memory, error)
}

// MemoryWatch measures the memory of Redis once a second, so that the gate refuses purchases before Redis refuses
// commands. It reports the memory as a metric, and logs when a master becomes full and when it no longer is.
type MemoryWatch struct {
	redis MemoryMeter
	log   *slog.Logger
	free  *telemetry.Reading
	full  map[string]bool // address -> at the last measurement
}

// NewMemoryWatch returns a MemoryWatch; Run starts it.
func NewMemoryWatch(redis MemoryMeter, tel *telemetry.Telemetry) (*MemoryWatch, error) {
	free, err := tel.Reading("flashsale.seckill.gate.memory.free", metric.WithUnit("%"),
		metric.WithDescription("Part of maxmemory that is free, on the Redis master with the least; no sample without a limit"))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return &MemoryWatch{redis: redis, log: tel.Log, free: free, full: map[string]bool{}}, nil
}

// Run measures until ctx ends.
func (w *MemoryWatch) Run(ctx context.Context) error {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		w.measure(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *MemoryWatch) measure(ctx context.Context) {
	all, err := w.redis.MeasureMemory(ctx)
	least, limited := int64(100), false
	for _, m := range all {
		if m.Full != w.full[m.Addr] {
			w.full[m.Addr] = m.Full
			message := "redis has memory for purchases again"
			if m.Full {
				message = "redis is short of memory, purchases get journal_full"
			}
			w.log.WarnContext(ctx, message, "master", m.Addr, "used", m.Used, "maxmemory", m.Max)
		}
		if m.Max > 0 {
			limited = true
			least = min(least, max(0, 100-m.Used*100/m.Max))
		}
	}
	if err == nil && !limited {
		err = errors.New("no limit")
	}
	w.free.Record(least, err)
}
