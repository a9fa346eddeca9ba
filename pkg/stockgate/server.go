package stockgate

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// BeginFilling returns a value that this Redis keeps until it loses its data. All processes get the same one. Two round
// trips.
func (g *Gate) BeginFilling(ctx context.Context) (string, error) {
	return call(ctx, g, func(ctx context.Context) (string, error) {
		if err := g.rdb.SetNX(ctx, keyFilling, rand.Text(), 0).Err(); err != nil {
			return "", err
		}
		return g.rdb.Get(ctx, keyFilling).Result()
	})
}

// MarkReady records that inventory has filled this Redis: from now on, what is absent does not exist. The mark is lost
// with the data. One round trip.
func (g *Gate) MarkReady(ctx context.Context) error {
	_, err := call(ctx, g, func(ctx context.Context) (string, error) {
		return g.rdb.Set(ctx, keyReady, "1", 0).Result()
	})
	return err
}

// Ready reports whether MarkReady was called since this Redis was last empty. One round trip.
func (g *Gate) Ready(ctx context.Context) (bool, error) {
	return call(ctx, g, func(ctx context.Context) (bool, error) {
		n, err := g.rdb.Exists(ctx, keyReady).Result()
		return n == 1, err
	})
}

// Now returns the time that gates decide by: Redis TIME, in ms. On a Cluster it is the time of one of the nodes. One
// round trip.
func (g *Gate) Now(ctx context.Context) (time.Time, error) {
	return call(ctx, g, func(ctx context.Context) (time.Time, error) {
		now, err := g.rdb.Time(ctx).Result()
		return now.UTC().Truncate(time.Millisecond), err
	})
}

// ReplicationID returns an identifier of the master's data history, or those of all masters of a Cluster. A changed
// value means that a master was restarted or replaced, and that writes may have been lost. The run id would not do: a
// master that is replaced and later reinstated keeps it, but lacks the writes made in between. The result is empty on
// a server that has no such id (miniredis). One round trip per master.
func (g *Gate) ReplicationID(ctx context.Context) (string, error) {
	return call(ctx, g, func(ctx context.Context) (string, error) {
		cluster, ok := g.rdb.(*redis.ClusterClient)
		if !ok {
			return replicationID(ctx, g.rdb)
		}
		var mu sync.Mutex
		var ids []string
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			id, err := replicationID(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
			return err
		})
		slices.Sort(ids)
		return strings.Join(ids, ","), err
	})
}

func replicationID(ctx context.Context, node redis.Cmdable) (string, error) {
	info, err := node.Info(ctx, "replication").Result()
	if err != nil {
		if strings.Contains(err.Error(), "is not supported") { // miniredis
			return "", nil
		}
		return "", err
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "master_replid:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", nil
}

// Trim removes at most limit entries that ended more than 24 h ago, and returns their number. It lets the keys of a
// gate expire once its activity has ended and it holds no units. inventory's gate controller calls it from time to
// time; Release and Drop also trim a few entries. One script call, O(limit).
func (g *Gate) Trim(ctx context.Context, activityID string, limit int) (int, error) {
	n, err := g.runInt(ctx, scriptTrim, activityID, min(max(limit, 0), maxPage))
	return int(n), err
}
