package stockgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicaWait bounds the wait for replicas after a script call.
const replicaWait = 100 * time.Millisecond

// Confirm returns the entries of the given order_sns, at most 256, once Options.WaitReplicas replicas have them. It
// fails with ErrUnconfirmed if they do not confirm that in time. An order_sn that the gate's present master lacks is
// absent from the map, although an earlier call may have read it on a master that was replaced since; an entry that
// cannot be decoded is marked Broken. One script call, O(order_sns).
func (g *Gate) Confirm(ctx context.Context, activityID string, orderSNs []string) (map[string]Entry, error) {
	if len(orderSNs) > batchSize {
		return nil, fmt.Errorf("stockgate: %d order_sns to confirm, at most %d are allowed", len(orderSNs), batchSize)
	}
	args, err := idArgs(orderSNs)
	if err != nil {
		return nil, err
	}
	// WAIT covers the writes of its own connection, and those of the master before them. So the script writes.
	raw, confirmed, err := g.runAndWait(ctx, scriptConfirm, activityID, args...)
	if err != nil {
		return nil, err
	}
	if !confirmed {
		return nil, ErrUnconfirmed
	}
	reply, err := stringList(scriptConfirm, raw)
	if err != nil {
		return nil, err
	}
	found := make(map[string]Entry, len(orderSNs))
	return found, decodePairs(reply, func(e Entry) { found[e.OrderSN] = e })
}

// WaitsForReplicas reports whether a purchase is accepted only once replicas have it. Without Options.WaitReplicas there
// is nothing to confirm.
func (g *Gate) WaitsForReplicas() bool { return g.opts.WaitReplicas > 0 }

// runAndWait runs a script and waits for the replicas, in one pipeline on a connection of the gate's master: a client of
// a Cluster would send WAIT to any node. confirmed is whether enough replicas have what the script wrote; it is true if
// Options.WaitReplicas is 0.
func (g *Gate) runAndWait(ctx context.Context, s *script, activityID string, args ...any) (
	reply any, confirmed bool, err error,
) {
	if g.opts.WaitReplicas == 0 {
		reply, err = g.run(ctx, s, activityID, args...)
		return reply, true, err
	}
	if err := validateActivity(activityID); err != nil {
		return nil, false, err
	}
	reply, err = call(ctx, g, func(ctx context.Context) (any, error) {
		node, err := g.master(ctx, activityID)
		if err != nil {
			return nil, err
		}
		var script *redis.Cmd
		attempt := func(queue func(p redis.Pipeliner) *redis.Cmd) error {
			p := node.Pipeline()
			script = queue(p)
			wait := p.Do(ctx, "WAIT", g.opts.WaitReplicas, replicaWait.Milliseconds())
			_, err := p.Exec(ctx)
			replicas, _ := wait.Int64() // 0 after an error
			confirmed = replicas >= int64(g.opts.WaitReplicas)
			if !hasReplies(err, []redis.Cmder{script, wait}) {
				return err // no connection
			}
			return script.Err()
		}
		err = attempt(func(p redis.Pipeliner) *redis.Cmd { return p.EvalSha(ctx, s.Hash(), keysOf(activityID), args...) })
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			err = attempt(func(p redis.Pipeliner) *redis.Cmd { return s.Eval(ctx, p, keysOf(activityID), args...) })
		}
		// A pipeline of a node bypasses the handling of errors by the client of a Cluster.
		if cluster, ok := g.rdb.(*redis.ClusterClient); ok && mayBeReplaced(err) {
			cluster.ReloadState(ctx)
		}
		return script.Val(), err
	})
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", s.name, err)
	}
	reply, err = refusalOf(reply)
	return reply, confirmed, err
}

// master returns the client of the gate's master.
func (g *Gate) master(ctx context.Context, activityID string) (redis.Cmdable, error) {
	if cluster, ok := g.rdb.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, keyOf(activityID, "gate"))
	}
	return g.rdb, nil
}

// mayBeReplaced reports whether a call failed as if its node were no longer the master of the slot: it did not reply, or
// replied that it cannot serve now. One that has no memory left is still the master.
func mayBeReplaced(err error) bool {
	return errors.Is(classify(err), ErrUnavailable) && !outOfMemory(err)
}
