package sim

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/stockgate"
)

const luaDir = "../../pkg/stockgate/lua"

var errLost = errors.New("sim: connection lost")

// scriptNames finds the names of the gate's scripts by their hash.
func scriptNames() (map[string]string, error) {
	prelude, err := os.ReadFile(filepath.Join(luaDir, "prelude.lua"))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(luaDir, "*.lua"))
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		sum := sha1.Sum(append(append([]byte(nil), prelude...), source...))
		names[hex.EncodeToString(sum[:])] = strings.TrimSuffix(filepath.Base(f), ".lua")
	}
	return names, nil
}

// dial connects to the embedded Redis without a socket, as a bubble of synctest needs it.
func (w *world) dialRedis() redis.UniversalClient {
	return stockgate.Connect([]string{"sim:6379"}, 0, func(o *redis.UniversalOptions) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) { return w.mini.Dial() }
		o.PoolSize = 256 // a full pool waits on timers that it shares with other bubbles
	})
}

// redisFaults stands between one process and Redis.
type redisFaults struct{ p *process }

func (f redisFaults) DialHook(next redis.DialHook) redis.DialHook { return next }

var scriptsThatRead = map[string]bool{"audit": true, "lookup": true, "buyer": true, "unlanded": true, "scan": true}

func (f redisFaults) name(cmd redis.Cmder) (name string, writes bool) {
	args := cmd.Args()
	switch n := cmd.Name(); n {
	case "evalsha", "eval":
		hash := fmt.Sprint(args[1])
		if n == "eval" {
			sum := sha1.Sum([]byte(hash))
			hash = hex.EncodeToString(sum[:])
		}
		if s, ok := f.p.w.scripts[hash]; ok {
			return "script " + s, !scriptsThatRead[s]
		}
		return "script of lock or lease", true
	case "set", "sadd", "srem", "hset", "del", "setnx", "incr", "expire", "pexpire":
		return n, true
	default:
		return n, false
	}
}

func (f redisFaults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "info" { // the embedded Redis has no identity of its own
			if c, ok := cmd.(*redis.StringCmd); ok {
				c.SetVal(fmt.Sprintf("run_id:%d\r\n", f.p.w.redisLife.Load()))
				return nil
			}
		}
		if cmd.Name() == "hello" || cmd.Name() == "client" {
			return next(ctx, cmd)
		}
		name, writes := f.name(cmd)
		kinds := reading
		if writes {
			kinds = writing
		}
		args := cmd.Args()
		if strings.HasPrefix(cmd.Name(), "eval") {
			args = args[2:]
		}
		again := func() { // the command arrives without anybody who waits for it
			out, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			f.p.w.rdb.Do(out, cmd.Args()...)
		}
		err := f.p.at(ctx, "redis", name, kinds, args, func() error { return next(ctx, cmd) }, again)
		if errors.Is(err, errFault) {
			return errLost
		}
		return err
	}
}

func (f redisFaults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && (cmds[0].Name() == "hello" || cmds[0].Name() == "client") {
			return next(ctx, cmds)
		}
		err := f.p.at(ctx, "redis", "pipeline of "+cmds[0].Name(), reading, nil, func() error { return next(ctx, cmds) }, nil)
		if errors.Is(err, errFault) {
			for _, c := range cmds {
				c.SetErr(errLost)
			}
			return errLost
		}
		return err
	}
}
