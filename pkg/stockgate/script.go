package stockgate

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// The sources of the scripts. The header of each file lists arguments, reply and cost. The prelude, with the functions
// that all scripts share, is prepended to each of them.
var (
	//go:embed lua/prelude.lua
	luaPrelude string
	//go:embed lua/preload.lua
	luaPreload string
	//go:embed lua/configure.lua
	luaConfigure string
	//go:embed lua/reserve.lua
	luaReserve string
	//go:embed lua/release.lua
	luaRelease string
	//go:embed lua/drop.lua
	luaDrop string
	//go:embed lua/settle.lua
	luaSettle string
	//go:embed lua/rejournal.lua
	luaRejournal string
	//go:embed lua/adjust.lua
	luaAdjust string
	//go:embed lua/ack.lua
	luaAck string
	//go:embed lua/read.lua
	luaRead string
	//go:embed lua/unacked.lua
	luaUnacked string
	//go:embed lua/audit.lua
	luaAudit string
	//go:embed lua/backlog.lua
	luaBacklog string
	//go:embed lua/lookup.lua
	luaLookup string
	//go:embed lua/allowances.lua
	luaAllowances string
	//go:embed lua/purchases.lua
	luaPurchases string
	//go:embed lua/unlanded.lua
	luaUnlanded string
	//go:embed lua/scan.lua
	luaScan string
	//go:embed lua/trim.lua
	luaTrim string
	//go:embed lua/sale.lua
	luaSale string
	//go:embed lua/survey.lua
	luaSurvey string
	//go:embed lua/mismatched_buyers.lua
	luaMismatchedBuyers string
	//go:embed lua/repair.lua
	luaRepair string
	//go:embed lua/rebuild_buyer.lua
	luaRebuildBuyer string
	//go:embed lua/correct.lua
	luaCorrect string
	//go:embed lua/track_changes.lua
	luaTrackChanges string
	//go:embed lua/collect_changes.lua
	luaCollectChanges string
	//go:embed lua/add_counts.lua
	luaAddCounts string
	//go:embed lua/add_suspects.lua
	luaAddSuspects string
	//go:embed lua/confirm.lua
	luaConfirm string
	//go:embed lua/register.lua
	luaRegister string
	//go:embed lua/mark_epoch.lua
	luaMarkEpoch string
	//go:embed lua/renew_epoch.lua
	luaRenewEpoch string
	//go:embed lua/room.lua
	luaRoom string
	//go:embed lua/room_join.lua
	luaRoomJoin string
	//go:embed lua/room_state.lua
	luaRoomState string
	//go:embed lua/room_draw.lua
	luaRoomDraw string
	//go:embed lua/room_admit.lua
	luaRoomAdmit string
	//go:embed lua/adjustments.lua
	luaAdjustments string
)

// script is a Lua script. Its name appears in errors.
type script struct {
	name string
	*redis.Script
}

func newScript(name, source string) *script {
	return &script{name: name, Script: redis.NewScript(luaPrelude + source)}
}

var (
	scriptPreload          = newScript("preload", luaPreload)
	scriptConfigure        = newScript("configure", luaConfigure)
	scriptReserve          = newScript("reserve", luaReserve)
	scriptRelease          = newScript("release", luaRelease)
	scriptDrop             = newScript("drop", luaDrop)
	scriptSettle           = newScript("settle", luaSettle)
	scriptRejournal        = newScript("rejournal", luaRejournal)
	scriptAdjust           = newScript("adjust", luaAdjust)
	scriptAck              = newScript("ack", luaAck)
	scriptRead             = newScript("read", luaRead)
	scriptUnacked          = newScript("unacked", luaUnacked)
	scriptAudit            = newScript("audit", luaAudit)
	scriptBacklog          = newScript("backlog", luaBacklog)
	scriptLookup           = newScript("lookup", luaLookup)
	scriptAllowances       = newScript("allowances", luaAllowances)
	scriptPurchases        = newScript("purchases", luaPurchases)
	scriptUnlanded         = newScript("unlanded", luaUnlanded)
	scriptScan             = newScript("scan", luaScan)
	scriptTrim             = newScript("trim", luaTrim)
	scriptSale             = newScript("sale", luaSale)
	scriptSurvey           = newScript("survey", luaSurvey)
	scriptMismatchedBuyers = newScript("mismatched_buyers", luaMismatchedBuyers)
	scriptRepair           = newScript("repair", luaRepair)
	scriptRebuildBuyer     = newScript("rebuild_buyer", luaRebuildBuyer)
	scriptCorrect          = newScript("correct", luaCorrect)
	scriptTrackChanges     = newScript("track_changes", luaTrackChanges)
	scriptCollectChanges   = newScript("collect_changes", luaCollectChanges)
	scriptAddCounts        = newScript("add_counts", luaAddCounts)
	scriptAddSuspects      = newScript("add_suspects", luaAddSuspects)
	scriptConfirm          = newScript("confirm", luaConfirm)
	scriptRegister         = newScript("register", luaRegister)
	scriptMarkEpoch        = newScript("mark_epoch", luaMarkEpoch)
	scriptRenewEpoch       = newScript("renew_epoch", luaRenewEpoch)
	scriptAdjustments      = newScript("adjustments", luaAdjustments)
	scriptRoomJoin         = newScript("room_join", luaRoom+luaRoomJoin)
	scriptRoomState        = newScript("room_state", luaRoom+luaRoomState)
	scriptRoomDraw         = newScript("room_draw", luaRoom+luaRoomDraw)
	scriptRoomAdmit        = newScript("room_admit", luaRoom+luaRoomAdmit)
)

// refusals maps the replies by which a script refuses to their errors.
var refusals = map[string]error{
	"no_gate":      ErrNoGate,
	"version":      ErrStaleVersion,
	"insufficient": ErrInsufficient,
	"unknown_sku":  ErrUnknownSKU,
	"conflict":     ErrAdjustmentConflict,
	"decided":      ErrDecided,
	"no_room":      ErrNoRoom,
	"not_open":     ErrRoomNotOpen,
	"ended":        ErrRoomEnded,
	"not_closed":   ErrRoomNotReady,
	"differs":      ErrRoomNotReady,
	"not_started":  ErrRoomNotReady,
	"no_draw":      ErrRoomNotReady,
	"fenced":       ErrFenced,
}

// run calls a script by its hash, or by its source if the server does not have it yet. A refusal becomes an error.
func (g *Gate) run(ctx context.Context, s *script, activityID string, args ...any) (any, error) {
	if err := validateActivity(activityID); err != nil {
		return nil, err
	}
	return g.runWith(ctx, s, keysOf(activityID), args...)
}

// runWith is run with these keys: those of the gate, and others of the script.
func (g *Gate) runWith(ctx context.Context, s *script, keys []string, args ...any) (any, error) {
	reply, err := call(ctx, g, func(ctx context.Context) (any, error) {
		return s.Run(ctx, g.rdb, keys, args...).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return refusalOf(reply)
}

// refusalOf returns the error of a reply that is a refusal, and any other reply as it is.
func refusalOf(reply any) (any, error) {
	if word, ok := reply.(string); ok {
		if refusal := refusals[word]; refusal != nil {
			return nil, refusal
		}
	}
	return reply, nil
}

// runStrings is run for scripts that return a list of strings.
func (g *Gate) runStrings(ctx context.Context, s *script, activityID string, args ...any) ([]string, error) {
	reply, err := g.run(ctx, s, activityID, args...)
	if err != nil {
		return nil, err
	}
	return stringList(s, reply)
}

// stringList converts a reply that is a list of strings.
func stringList(s *script, reply any) ([]string, error) {
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("stockgate: %s returned %T instead of a list", s.name, reply)
	}
	out := make([]string, len(list))
	for i, v := range list {
		if out[i], ok = v.(string); !ok {
			return nil, fmt.Errorf("stockgate: %s returned a list with %T", s.name, v)
		}
	}
	return out, nil
}

// runInt is run for scripts that return a number.
func (g *Gate) runInt(ctx context.Context, s *script, activityID string, args ...any) (int64, error) {
	reply, err := g.run(ctx, s, activityID, args...)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("stockgate: %s returned %T instead of a number", s.name, reply)
	}
	return n, nil
}

// runBatches runs a script whose items have size arguments each, with batchSize items to a call. It stops at the first
// error.
func (g *Gate) runBatches(ctx context.Context, s *script, activityID string, size int, args []any) error {
	for batch := range slices.Chunk(args, size*batchSize) {
		if _, err := g.run(ctx, s, activityID, batch...); err != nil {
			return err
		}
	}
	return nil
}
