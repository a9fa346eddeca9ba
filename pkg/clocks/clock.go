package clocks

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clock is the clock of a dependency.
type Clock struct {
	Name string // as metrics and operators see it: database or redis
	// Read returns the present time of each server.
	Read func(ctx context.Context) ([]time.Time, error)
}

// Database returns the clock of a database. now reads it.
func Database(now func(ctx context.Context) (time.Time, error)) Clock {
	return Clock{Name: "database", Read: func(ctx context.Context) ([]time.Time, error) {
		t, err := now(ctx)
		return []time.Time{t}, err
	}}
}

// Redis returns the clock of a Redis; of a Cluster, the clocks of all masters that respond.
func Redis(rdb redis.UniversalClient) Clock {
	return Clock{Name: "redis", Read: func(ctx context.Context) ([]time.Time, error) {
		cluster, ok := rdb.(*redis.ClusterClient)
		if !ok {
			t, err := rdb.Time(ctx).Result()
			return []time.Time{t}, err
		}
		var mu sync.Mutex
		var list []time.Time
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			t, err := node.Time(ctx).Result()
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				list = append(list, t)
			}
			return err
		})
		if len(list) > 0 {
			err = nil
		}
		return list, err
	}}
}
