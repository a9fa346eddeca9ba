package presence

import (
	"context"
	"database/sql"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"flashsale.internal/pkg/sqldb"
)

// AddBreaker adds a breaker. A state of "" means that there is none.
func (v *Vitals) AddBreaker(name, state string) {
	if state != "" {
		v.Breakers = append(v.Breakers, Breaker{name, state})
	}
}

// AddWarning adds the text of an error; nil for none.
func (v *Vitals) AddWarning(err error) {
	if err != nil {
		v.Warnings = append(v.Warnings, err.Error())
	}
}

// AddRedis adds the pool of a client of Redis, and the offset to the clock of Redis.
func AddRedis(ctx context.Context, v *Vitals, rdb redis.UniversalClient) {
	stats := rdb.PoolStats()
	p := Pool{Name: redisClock, InUse: int(stats.TotalConns) - int(stats.IdleConns)}
	switch c := rdb.(type) {
	case *redis.Client:
		p.Max = c.Options().PoolSize
	case *redis.ClusterClient: // of each node
		p.Max = c.Options().PoolSize
	}
	v.Pools = append(v.Pools, p)
	addRedisClock(ctx, v, rdb)
}

// addRedisClock adds the offset to the clock of Redis, unless Redis does not respond.
func addRedisClock(ctx context.Context, v *Vitals, rdb redis.UniversalClient) {
	addClock(v, redisClock, func() (time.Time, error) { return rdb.Time(ctx).Result() })
}

// AddDatabase adds the pool and the breaker of a database, and the offset to its clock. SQLite runs in the process, so
// it has only the pool.
func AddDatabase(ctx context.Context, v *Vitals, db *gorm.DB) {
	pool, err := db.DB()
	if err != nil {
		return
	}
	stats := pool.Stats()
	v.Pools = append(v.Pools, Pool{Name: "database", InUse: stats.InUse, Max: stats.MaxOpenConnections})
	if sqldb.IsSQLite(db) {
		return
	}
	v.AddBreaker("database", sqldb.Breaker(db))
	addClock(v, "database", func() (time.Time, error) { return databaseTime(ctx, pool) })
}

func databaseTime(ctx context.Context, pool *sql.DB) (time.Time, error) {
	var seconds float64
	err := pool.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP(NOW(3))").Scan(&seconds)
	return time.UnixMilli(int64(seconds * 1000)), err
}

// addClock reads a clock and adds its offset: the time is taken to be that of the middle of the round trip.
func addClock(v *Vitals, name string, read func() (time.Time, error)) {
	began := time.Now()
	there, err := read()
	if err != nil {
		return
	}
	here := began.Add(time.Since(began) / 2)
	if v.ClockOffsetMS == nil {
		v.ClockOffsetMS = map[string]int64{}
	}
	v.ClockOffsetMS[name] = here.Sub(there).Milliseconds()
}
