package ratelimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts so
	_ "embed"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The sources of the scripts; see lua/prelude.lua for what they share. A script decides about one key or about
// several. With several it first decides about each and then charges all or none.
var (
	//go:embed lua/prelude.lua
	luaPrelude string
	//go:embed lua/arrival.lua
	luaArrival string
	//go:embed lua/fast/arrival.lua
	fastArrival string
	//go:embed lua/window.lua
	luaWindow string
	//go:embed lua/fast/window.lua
	fastWindow string
	//go:embed lua/sliding.lua
	luaSliding string
	//go:embed lua/fast/sliding.lua
	fastSliding string
	//go:embed lua/log.lua
	luaLog string
	//go:embed lua/fast/rest.lua
	fastRest string
	//go:embed lua/fast/log.lua
	fastLog string
	//go:embed lua/warm.lua
	luaWarm string
	//go:embed lua/fast/warm.lua
	fastWarm string
)

// family is a set of algorithms with the same state in Redis.
type family struct {
	name   string // prefix of its Lua functions
	suffix string // suffix of its Redis keys; other families never read them
	source string
	fast   string // fast path for one key
}

func (a Algorithm) family() family {
	switch a {
	case FixedWindow:
		return family{"window", "f", luaWindow, fastWindow}
	case SlidingWindow:
		return family{"sliding", "s", luaSliding, fastSliding}
	case SlidingLog:
		return family{"log", "l", luaLog, fastLog}
	case WarmUp:
		return family{"warm", "w", luaWarm, fastWarm}
	default:
		return family{"arrival", "a", luaArrival, fastArrival}
	}
}

// script is a Lua script and its SHA-1, by which Redis names it.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // not a secret
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// scripts caches the scripts by verb and families. A script is made when it is first needed: one for each family, and
// one for each combination of families that a route uses.
var scripts sync.Map // string -> *script

func scriptFor(verb string, algorithms ...Algorithm) *script {
	name := verb
	for _, a := range algorithms {
		name += a.family().suffix
	}
	if s, ok := scripts.Load(name); ok {
		return s.(*script)
	}
	s, _ := scripts.LoadOrStore(name, newScript(assemble(verb, algorithms)))
	return s.(*script)
}

// argsPerKey is the number of ARGV of each key; see lua/prelude.lua.
const argsPerKey = 11

// repliesPerKey is the number of integers that decide returns for each key.
const repliesPerKey = 7

func assemble(verb string, algorithms []Algorithm) string {
	var b strings.Builder
	if verb == "decide" && len(algorithms) == 1 {
		b.WriteString(algorithms[0].family().fast)
		b.WriteString(fastRest)
	}
	b.WriteString(luaPrelude)
	seen := map[string]bool{}
	for _, a := range algorithms {
		if f := a.family(); !seen[f.name] {
			seen[f.name] = true
			b.WriteString(f.source)
		}
	}
	first := algorithms[0].family().name
	switch {
	case verb == "refund":
		for i, a := range algorithms {
			fmt.Fprintf(&b, "%s_refund(KEYS[%d], %d)\n", a.family().name, i+1, i*argsPerKey)
		}
		b.WriteString("return {1}\n")
	case len(algorithms) == 1:
		fmt.Fprintf(&b, `
local give, left, wait, retry, reset, stamp, debit, x, y, z, u, v = %[1]s_decide(KEYS[1], 0)
if give > 0 then %[1]s_save(KEYS[1], 0, x, y, z, u, v) end
return {give, left, wait, retry, reset, stamp, debit}
`, first)
	default:
		for i, a := range algorithms {
			fmt.Fprintf(&b, "local k%[1]d = {%[2]s_decide(KEYS[%[1]d], %[3]d)}\n", i+1, a.family().name, i*argsPerKey)
		}
		b.WriteString("if true")
		for i := range algorithms {
			fmt.Fprintf(&b, " and k%d[1] >= 0", i+1)
		}
		b.WriteString(" then\n")
		for i, a := range algorithms {
			fmt.Fprintf(&b, "  if k%[1]d[1] > 0 then %[2]s_save(KEYS[%[1]d], %[3]d, "+
				"k%[1]d[8], k%[1]d[9], k%[1]d[10], k%[1]d[11], k%[1]d[12]) end\n", i+1, a.family().name, i*argsPerKey)
		}
		b.WriteString("end\nreturn {")
		for i := range algorithms {
			for j := range repliesPerKey {
				fmt.Fprintf(&b, "k%d[%d], ", i+1, j+1)
			}
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// limitArgsOf returns the six arguments that describe a limit to the scripts of its algorithm.
func limitArgsOf(p *params) [6]any {
	s := p.spec
	switch s.Algorithm {
	case FixedWindow:
		period := s.Period.Microseconds()
		return [6]any{period, s.Rate, "", "", "", fmt.Sprintf("%d;%d", period, s.Rate)}
	case SlidingWindow:
		width := p.width / int64(time.Microsecond)
		return [6]any{width, s.Rate, s.Buckets, "", "", fmt.Sprintf("%d;%d;%d", width, s.Rate, s.Buckets)}
	case SlidingLog:
		return [6]any{s.Period.Microseconds(), s.Rate, "", "", "", ""}
	case WarmUp:
		text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
		return [6]any{
			text(p.warm.stable), s.Burst, s.WarmUp.Microseconds(), text(s.ColdFactor),
			p.maxWait/micro + int64(math.Ceil(p.warm.tolerance+float64(s.Burst)*p.warm.cold)), "",
		}
	default:
		// Whole 1/32 microseconds, rounded up to the strict side, and exact in the doubles of Lua.
		ticks := ceilDiv(s.Period.Microseconds()*32, s.Rate)
		room := ticks * s.Burst
		if s.Algorithm == LeakyQueue {
			room = ticks
		}
		return [6]any{ticks, room, s.Burst, s.MaxWait.Microseconds() * 32, "", fmt.Sprintf("%d;%d", ticks, room)}
	}
}

// noRetryCmd is a command that go-redis never sends twice, whatever the settings of the client: a second charge is
// worse than a missing reply.
type noRetryCmd struct{ *redis.IntSliceCmd }

// NoRetry implements an optional interface of go-redis.
func (noRetryCmd) NoRetry() bool { return true }

// command returns a call of the script by its hash. Scripts reply with a list of integers.
func (s *script) command(ctx context.Context, keys []string, args []any) noRetryCmd {
	call := make([]any, 3, 3+len(keys)+len(args))
	call[0], call[1], call[2] = "evalsha", s.sha, len(keys)
	for _, k := range keys {
		call = append(call, k)
	}
	return noRetryCmd{redis.NewIntSliceCmd(ctx, append(call, args...)...)}
}

// notLoaded reports whether the server has not loaded the script; it did not run then.
func (s *script) notLoaded(cmd noRetryCmd) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") }

// withSource returns the same call with the source of the script instead of its hash.
func (s *script) withSource(ctx context.Context, cmd noRetryCmd) noRetryCmd {
	call := cmd.Args()
	call[0], call[1] = "eval", s.text
	return noRetryCmd{redis.NewIntSliceCmd(ctx, call...)}
}

// run sends a command, and once more with the source if the script is not loaded.
func (s *script) run(ctx context.Context, rdb redis.UniversalClient, cmd noRetryCmd) ([]int64, error) {
	if _ = rdb.Process(ctx, cmd); s.notLoaded(cmd) {
		cmd = s.withSource(ctx, cmd)
		_ = rdb.Process(ctx, cmd)
	}
	return cmd.Result()
}
