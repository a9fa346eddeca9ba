package presence

import (
	"context"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"
	"gorm.io/gorm"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
)

// AddBreaker adds a breaker. A state of "" means that there is none.
func (v *Vitals) AddBreaker(name, state string) {
	if state != "" {
		v.Breakers = append(v.Breakers, Breaker{name, state})
	}
}

// AddClocks adds the measured offsets to other clocks, and a warning while the process decides nothing by time.
func (v *Vitals) AddClocks(ctx context.Context, m *clocks.Monitor) {
	if err := m.Check(ctx); err != nil {
		v.Warnings = append(v.Warnings, err.Error())
	}
	v.ClockOffsetMS = map[string]int64{}
	for name, ahead := range m.Offsets() {
		v.ClockOffsetMS[name] = ahead.Milliseconds()
	}
}

// AddRedis adds the pool of a client of Redis.
func (v *Vitals) AddRedis(rdb redis.UniversalClient) { v.Pools = append(v.Pools, RedisPool(rdb)) }

// RedisPool returns the pool of a client of Redis.
func RedisPool(rdb redis.UniversalClient) Pool {
	stats := rdb.PoolStats()
	p := Pool{Name: "redis", InUse: int(stats.TotalConns) - int(stats.IdleConns)}
	if c, one := rdb.(*redis.Client); one { // a cluster has a pool for each node
		p.Max = c.Options().PoolSize
	}
	return p
}

// AddDatabase adds the pool and the breaker of a database. SQLite runs in the process, so it has only the pool.
func (v *Vitals) AddDatabase(db *gorm.DB) {
	v.Pools = append(v.Pools, DatabasePool(db))
	if !sqldb.IsSQLite(db) {
		v.AddBreaker("database", sqldb.Breaker(db))
	}
}

// DatabasePool returns the pool of a database.
func DatabasePool(db *gorm.DB) Pool {
	p := Pool{Name: "database"}
	if pool, err := db.DB(); err == nil {
		stats := pool.Stats()
		p.InUse, p.Max = stats.InUse, stats.MaxOpenConnections
	}
	return p
}

// ObservePool exports a pool as the gauge flashsale.pool.connections, read at each scrape.
func ObservePool(tel *telemetry.Telemetry, dependency string, read func() Pool) error {
	gauge, err := tel.Meter.Int64ObservableGauge("flashsale.pool.connections", metric.WithUnit("{connection}"),
		metric.WithDescription("Connections to a dependency by state: in_use, and max, the bound at which calls wait for one; "+
			"of a Redis cluster that of each node"))
	if err != nil {
		return err
	}
	of := telemetry.AttrDependency.String(dependency)
	inUse := metric.WithAttributes(of, telemetry.AttrState.String("in_use"))
	most := metric.WithAttributes(of, telemetry.AttrState.String("max"))
	_, err = tel.Meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		p := read()
		o.ObserveInt64(gauge, int64(p.InUse), inUse)
		if p.Max > 0 {
			o.ObserveInt64(gauge, int64(p.Max), most)
		}
		return nil
	}, gauge)
	return err
}
