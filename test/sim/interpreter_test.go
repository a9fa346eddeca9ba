package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/stockgate"
)

// both sends each command to a second server too, and compares the replies.
type both struct {
	t     *testing.T
	other *redis.Client
}

func (both) DialHook(next redis.DialHook) redis.DialHook { return next }

func (both) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b both) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "hello" {
			return next(ctx, cmd)
		}
		err := next(ctx, cmd)
		want, otherErr := b.other.Do(ctx, cmd.Args()...).Result()
		require.Equal(b.t, fmt.Sprint(otherErr), fmt.Sprint(err), "%v", cmd.Args()[2:])
		if c, ok := cmd.(*redis.Cmd); ok && err == nil {
			require.Equal(b.t, want, c.Val(), "%v", cmd.Args()[2:])
		}
		return err
	}
}

// TestScriptsRunAsOnTheEmbeddedRedis makes random calls of the gate on a server that keeps its Lua states and on an
// unchanged one. Both return the same replies and end with the same keys.
func TestScriptsRunAsOnTheEmbeddedRedis(t *testing.T) {
	kept, own := newRedis(func() bool { return false }), miniredis.RunT(t)
	defer kept.Close()
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	other := redis.NewClient(&redis.Options{Addr: own.Addr(), ReadTimeout: -1, WriteTimeout: -1})
	defer other.Close()
	rdb := redis.NewClient(&redis.Options{
		Addr: "kept", Dialer: func(context.Context, string, string) (net.Conn, error) { return kept.Dial() },
		ReadTimeout: -1, WriteTimeout: -1, // a retry would be executed on one of the two only
	})
	defer rdb.Close()
	rdb.AddHook(both{t, other})
	gate, activityID, ctx := stockgate.New(rdb,
		stockgate.Options{Timeout: time.Hour}), "1", t.Context()
	r := rand.New(rand.NewPCG(1, 2))
	var build *stockgate.Build
	for step := range 3000 {
		clock = clock.Add(time.Duration(r.IntN(40)) * time.Millisecond)
		kept.SetTime(clock)
		own.SetTime(clock)
		sn, user := strconv.Itoa(100+r.IntN(40)), "u"+strconv.Itoa(r.IntN(6))
		lines := []contract.Line{{SKUID: strconv.Itoa(1 + r.IntN(3)), Qty: 1 + r.Int64N(2)}} // SKU 3 is not sold
		var err error
		switch r.IntN(15) {
		case 0:
			err = gate.Preload(ctx, activityID, stockgate.Snapshot{
				Config: stockgate.Config{State: "open", StartsAt: clock.Add(-time.Second), EndsAt: clock.Add(time.Minute), PerUserLimit: 2, Version: 1},
				Stock:  map[string]int64{"1": 20, "2": 5}, Totals: map[string]int64{"1": 20, "2": 5},
			})
		case 1, 2, 3:
			_, err = gate.Reserve(ctx, activityID, []stockgate.Request{{OrderSN: sn, UserID: user, Lines: lines}})
		case 4, 5:
			err = gate.Settle(ctx, activityID, []stockgate.Settlement{{
				OrderSN: sn, UserID: user, Lines: lines, ExpiresAt: clock.Add(time.Second),
				Step: []stockgate.Step{stockgate.StepLanded, stockgate.StepCreated, stockgate.StepPaid}[r.IntN(3)],
			}})
		case 6:
			err = gate.Release(ctx, activityID,
				[]stockgate.Ending{{OrderSN: sn, UserID: user, Lines: lines, Reason: "expired"}})
		case 7:
			err = gate.Drop(ctx, activityID,
				[]stockgate.Ending{{OrderSN: sn, UserID: user, Lines: lines, Reason: "sold_out"}})
		case 8:
			err = gate.Adjust(ctx, activityID,
				stockgate.Adjustment{ID: strconv.Itoa(r.IntN(30)), SKUID: lines[0].SKUID, Delta: int64(r.IntN(7)) - 3, Force: r.IntN(2) == 0})
		case 9:
			var list []stockgate.JournalEntry
			if list, _, err = gate.ReadJournal(ctx, activityID, "c", 4); err == nil && len(list) > 0 {
				err = gate.Ack(ctx, activityID, []string{list[0].ID})
			}
		case 10:
			_, err = gate.Rejournal(ctx, activityID, []string{sn})
		case 11:
			_, err = gate.Unlanded(ctx, activityID, time.Time{}, clock, 3)
		case 12:
			if _, err = gate.Audit(ctx, activityID); err == nil && r.IntN(20) == 0 {
				err = rdb.Del(ctx, "fs:{1}:gate").Err()
			}
		case 13:
			if build == nil || r.IntN(8) == 0 {
				build, err = gate.BeginBuild(ctx, activityID)
				break
			}
			err = build.Put(ctx, []stockgate.Entry{{
				OrderSN: sn, UserID: user, Lines: []contract.Line{{SKUID: "1", Qty: lines[0].Qty}}, ExpiresAt: clock.Add(time.Second),
				Reason: "expired", EndedAt: clock,
				Status: []stockgate.Status{stockgate.StatusQueued, stockgate.StatusCreated, stockgate.StatusPaid, stockgate.StatusClosed}[r.IntN(4)],
			}})
		case 14:
			if build == nil {
				break
			}
			if err = build.PutAdjusted(ctx, []string{strconv.Itoa(r.IntN(30))}); err == nil {
				held, sold := r.Int64N(5), r.Int64N(5)
				err = build.Commit(ctx, stockgate.Figures{
					Config: stockgate.Config{State: "open", StartsAt: clock.Add(-time.Second), EndsAt: clock.Add(time.Minute), PerUserLimit: 2, Version: 1},
					SKUs: map[string]stockgate.Shelf{
						"1": {Left: 20, Held: held, Sold: sold, Total: 20 + held + sold}, "2": {Left: 5, Total: 5},
					},
				})
			}
		}
		require.NotErrorIs(t, err, stockgate.ErrUnavailable, "step %d", step)
	}
	require.Equal(t, own.Dump(), kept.Dump())
}
