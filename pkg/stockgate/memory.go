package stockgate

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// fullMasters holds the masters that have too little memory left for more purchases: address -> whether it is so. The
// address is "" if Redis is no Cluster.
type fullMasters struct{ sync.Map }

// Memory is the memory of one Redis master, in bytes. Max is 0 without a limit (maxmemory).
type Memory struct {
	Addr      string // "" if Redis is no Cluster
	Used, Max int64
	Full      bool // less than Options.MemoryReserve is left: its gates accept no purchases
}

// MeasureMemory requests the memory of each master. Until the next call, Reserve returns JournalFull for the gates of a
// master that is full, before Redis itself refuses commands: what was accepted needs memory until it has ended. The
// result has no order, and is empty on a server that does not report its memory (miniredis). With an error it holds the
// masters that were measured all the same. One round trip per master, of all masters at once.
func (g *Gate) MeasureMemory(ctx context.Context) (all []Memory, err error) {
	_, err = call(ctx, g, func(ctx context.Context) (_ struct{}, err error) {
		cluster, ok := g.rdb.(*redis.ClusterClient)
		if !ok {
			all, err = g.measure(ctx, nil, "", g.rdb)
			return struct{}{}, err
		}
		var mu sync.Mutex
		return struct{}{}, cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			measured, err := g.measure(ctx, nil, node.Options().Addr, node)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, measured...)
			return err
		})
	})
	return all, err
}

// measure appends the memory of a master.
func (g *Gate) measure(ctx context.Context, all []Memory, addr string, node redis.Cmdable) ([]Memory, error) {
	info, err := node.Info(ctx, "memory").Result()
	if err != nil {
		if strings.Contains(err.Error(), "is not supported") { // miniredis
			return all, nil
		}
		return all, err
	}
	m := Memory{Addr: addr}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			m.Used, _ = strconv.ParseInt(value, 10, 64)
		case "maxmemory":
			m.Max, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	m.Full = m.Max > 0 && m.Used > m.Max-m.Max/100*int64(g.opts.MemoryReserve)
	g.full.Store(addr, m.Full)
	return append(all, m), nil
}

// isFull reports whether the gate's master had too little memory at the last measurement.
func (g *Gate) isFull(ctx context.Context, activityID string) bool {
	full, _ := g.full.Load(g.masterOf(ctx, activityID))
	return full == true
}

func (g *Gate) masterOf(ctx context.Context, activityID string) string {
	cluster, ok := g.rdb.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	node, err := cluster.MasterForKey(ctx, keyOf(activityID, "gate"))
	if err != nil {
		return "" // no address of a Cluster; the call itself will report the error
	}
	return node.Options().Addr
}

// outOfMemory reports whether Redis refused a command because it has reached maxmemory.
func outOfMemory(err error) bool {
	return refused(err) && strings.Contains(err.Error(), "OOM command not allowed")
}
