package presence

import (
	"context"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"flashsale.internal/pkg/clocks"
	"flashsale.internal/pkg/sqldb"
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
func (v *Vitals) AddRedis(rdb redis.UniversalClient) {
	stats := rdb.PoolStats()
	p := Pool{Name: "redis", InUse: int(stats.TotalConns) - int(stats.IdleConns)}
	switch c := rdb.(type) {
	case *redis.Client:
		p.Max = c.Options().PoolSize
	case *redis.ClusterClient: // of each node
		p.Max = c.Options().PoolSize
	}
	v.Pools = append(v.Pools, p)
}

// AddDatabase adds the pool and the breaker of a database. SQLite runs in the process, so it has only the pool.
func (v *Vitals) AddDatabase(db *gorm.DB) {
	pool, err := db.DB()
	if err != nil {
		return
	}
	stats := pool.Stats()
	v.Pools = append(v.Pools, Pool{Name: "database", InUse: stats.InUse, Max: stats.MaxOpenConnections})
	if !sqldb.IsSQLite(db) {
		v.AddBreaker("database", sqldb.Breaker(db))
	}
}
