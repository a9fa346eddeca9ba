package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flashsale.internal/pkg/stockgate"
)

const (
	luaDir   = "../../pkg/stockgate/lua"
	leaseDir = "../../pkg/ordersn/lua"
)

var errLost = errors.New("sim: connection lost")

// scriptNames returns the names of the gate's scripts by hash. SIM_LUA=settle.lua=/elsewhere/file replaces one file,
// if the services were built with it.
func scriptNames() (map[string]string, error) {
	other, elsewhere, _ := strings.Cut(os.Getenv("SIM_LUA"), "=")
	read := func(file string) ([]byte, error) {
		if filepath.Base(file) == other {
			file = elsewhere
		}
		return os.ReadFile(file)
	}
	prelude, err := read(filepath.Join(luaDir, "prelude.lua"))
	if err != nil {
		return nil, err
	}
	ofRooms, err := read(filepath.Join(luaDir, "room.lua"))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(luaDir, "*.lua"))
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, lease := range []string{"acquire", "renew"} {
		source, err := read(filepath.Join(leaseDir, lease+".lua"))
		if err != nil {
			return nil, err
		}
		names[hashOf(string(source))] = lease
	}
	for _, f := range files {
		source, err := read(f)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(f), ".lua")
		if strings.HasPrefix(name, "room_") {
			source = append(slices.Clone(ofRooms), source...)
		}
		names[hashOf(string(prelude)+string(source))] = name
	}
	return names, nil
}

// connBuffer is enough for small sales; the default of 32 KiB is allocated for every connection.
const connBuffer = 1 << 10

// dialRedis connects to the embedded Redis without a socket, as a bubble of synctest needs it.
func (w *world) dialRedis() redis.UniversalClient {
	return stockgate.Connect([]string{"sim:6379"}, 0, func(o *redis.UniversalOptions) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) { return w.mini.Load().Dial() }
		o.PoolSize = 256 // a full pool waits on timers that it shares with other bubbles
		o.ReadBufferSize, o.WriteBufferSize = connBuffer, connBuffer
	})
}

// redisFaults injects faults between one process and Redis.
type redisFaults struct{ p *process }

func (f redisFaults) DialHook(next redis.DialHook) redis.DialHook { return next }

var scriptsThatRead = map[string]bool{"audit": true, "backlog": true, "lookup": true, "purchases": true, "unlanded": true, "scan": true}

func (f redisFaults) name(cmd redis.Cmder) (name string, writes bool) {
	args := cmd.Args()
	switch n := cmd.Name(); n {
	case "evalsha", "eval":
		hash := fmt.Sprint(args[1])
		if n == "eval" {
			hash = hashOf(hash)
		}
		if s, ok := f.p.w.scripts[hash]; ok {
			if argv := argvOf(args); s == "adjust" && argv[1] == "undo" {
				s = "adjust undo"
			}
			return "script " + s, !scriptsThatRead[s]
		}
		return "script of lock or lease", true
	case "set", "sadd", "srem", "hset", "del", "setnx", "incr", "expire", "pexpire":
		return n, true
	default:
		return n, false
	}
}

// argvOf returns a script's arguments after its keys.
func argvOf(args []any) []any {
	keys, ok := args[2].(int)
	if !ok {
		panic(fmt.Sprintf("sim: a script with %T keys", args[2]))
	}
	return args[3+keys:]
}

func (f redisFaults) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f.process(ctx, cmd, next)
	}
}

// process runs a command at its fault point.
func (f redisFaults) process(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if cmd.Name() == "info" { // the embedded Redis has no identity of its own
		if c, ok := cmd.(*redis.StringCmd); ok {
			life := f.p.w.redisLife.Load()
			c.SetVal(fmt.Sprintf("run_id:%d\r\nmaster_replid:%d\r\n%s", life, life, f.p.w.memory()))
			return nil
		}
	}
	if cmd.Name() == "hello" || cmd.Name() == "client" {
		return next(ctx, cmd)
	}
	name, writes := f.name(cmd)
	if f.p.w.withoutRedis(f.p) {
		return errLost
	}
	if name == "script acquire" { // so that processes compete for the same worker ids
		argvOf(cmd.Args())[2] = 0
	}
	kinds := reading
	if writes {
		kinds = writing
	}
	args := cmd.Args()
	if strings.HasPrefix(cmd.Name(), "eval") {
		args = args[2:]
	}
	tight := f.p.w.tightFor()
	carry := func(do func() error) error { return f.p.w.onRedis(name, writes, cmd.Args(), do) }
	repeat := func() { // the command arrives after its caller has timed out
		out, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = carry(func() error { return f.p.w.rdb.Do(out, cmd.Args()...).Err() })
	}
	if name == "script reserve" && f.p.w.sale.together > 0 { // the other purchases of this moment form the next group
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	err := f.p.at(ctx, "redis", name, kinds, args, func() error {
		if name == "script adjust undo" {
			f.p.w.noteUndone(cmd.Args())
		}
		return carry(func() error {
			err := next(ctx, cmd)
			if name == "script reserve" && err == nil {
				f.p.w.watchReserve(cmd, tight)
			}
			return err
		})
	}, repeat)
	if errors.Is(err, errFault) {
		return errLost
	}
	return err
}

// noteUndone counts adjustments that the gate had taken and the database refused.
func (w *world) noteUndone(args []any) {
	adjusted, id := fmt.Sprint(args[9]), fmt.Sprint(argvOf(args)[0])
	if strings.Contains(w.mini.Load().HGet(adjusted, id), "|") {
		coverage.end("adjustment undone at the gate")
	}
}

func (f redisFaults) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && (cmds[0].Name() == "hello" || cmds[0].Name() == "client") {
			return next(ctx, cmds)
		}
		if f.p.w.withoutRedis(f.p) {
			for _, c := range cmds {
				c.SetErr(errLost)
			}
			return errLost
		}
		if len(cmds) == 2 && cmds[1].Name() == "wait" {
			return f.processAndWait(ctx, cmds, next)
		}
		err := f.p.at(ctx, "redis", "pipeline of "+cmds[0].Name(), reading, nil,
			func() error { return next(ctx, cmds) }, nil)
		if errors.Is(err, errFault) {
			for _, c := range cmds {
				c.SetErr(errLost)
			}
			return errLost
		}
		return err
	}
}

// processAndWait runs a script that is followed by WAIT for a replica.
func (f redisFaults) processAndWait(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
	confirmed := false
	err := f.process(ctx, cmds[0], func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, []redis.Cmder{cmd})
		r := f.p.w.replica
		confirmed = r == nil || !r.cut.Load() || f.p.w.mini.Load() == r.mini // a new replica follows the promoted one
		return err
	})
	wait, _ := cmds[1].(*redis.Cmd)
	if err == nil {
		name, _ := f.name(cmds[0])
		f.p.w.noteConfirmed(name, cmds[0], confirmed)
	}
	if errors.Is(err, errLost) {
		cmds[0].SetErr(err)
		wait.SetErr(err)
		return err
	}
	replicas := int64(1)
	if !confirmed {
		replicas = 0
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	wait.SetVal(replicas)
	return err
}

// newRedis starts an embedded Redis without a socket. It refuses commands that need memory while full.
func newRedis(full func() bool) *miniredis.Miniredis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	conn, err := m.Dial()
	if err == nil {
		err = errors.Join(conn.Close(), keepStates(m, full))
	}
	if err != nil {
		panic(err)
	}
	return m
}

// replica executes the commands of the master until it is cut off. On the bubble's clock both return the same TIME, so
// they are equal until then.
type replica struct {
	mini *miniredis.Miniredis
	rdb  redis.UniversalClient
	cut  atomic.Bool
}

func newReplica(full func() bool) *replica {
	r := &replica{mini: newRedis(full)}
	r.rdb = redis.NewClient(&redis.Options{
		Dialer:      func(context.Context, string, string) (net.Conn, error) { return r.mini.Dial() },
		ReadTimeout: -1, WriteTimeout: -1, DisableIdentity: true,
		ReadBufferSize: connBuffer, WriteBufferSize: connBuffer,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return r
}

func (r *replica) close() {
	_ = r.rdb.Close()
	r.mini.Close()
}

// betweenCommands runs do while no command of a service runs on Redis.
func (w *world) betweenCommands(do func()) {
	w.redisTurn <- struct{}{}
	defer func() { <-w.redisTurn }()
	do()
}

// onRedis runs a command of a service on the master, and on the replica until that is cut off, and checks the gate. Only
// one command runs at a time: so the replica has a prefix of the master's commands, and each loss is between two of
// them.
func (w *world) onRedis(name string, writes bool, args []any, do func() error) (err error) {
	w.betweenCommands(func() {
		err = do()
		// A command that timed out before it reached the master does not reach the replica.
		var said redis.Error
		if r := w.replica; r != nil && !r.cut.Load() && (writes || strings.HasPrefix(fmt.Sprint(args[0]), "eval")) &&
			(err == nil || errors.As(err, &said)) {
			r.rdb.Do(context.Background(), args...)
		}
		w.watchMemory(name, err)
		w.watchFinal(name, args)
		w.watchSums(name, args)
		w.watchRoom(name, args)
	})
	return err
}

// failOver cuts off the replica and makes it the master some time later.
func (w *world) failOver(callers *sync.WaitGroup) {
	r := w.replica
	r.cut.Store(true)
	w.history.note("redis", "! the replica is cut off")
	point := "redis: failover"
	switch {
	case w.sale.acquires:
		point = "redis: failover loses an acquisition"
		w.restart("seckill", 1, point)
	case w.sale.waits:
		point = "redis: failover while 202 waits for a replica"
	case w.sale.alone:
		point = "redis: failover while inventory is down"
		for slot := range w.sale.instances {
			w.mu.Lock()
			p := w.lives[fmt.Sprintf("inventory/%d", slot)]
			w.mu.Unlock()
			if p != nil {
				p.die(point)
			}
		}
	}
	var greedy []*caller
	if w.sale.greedy {
		for i := range 3 {
			b, err := w.newCaller("greedy"+strconv.Itoa(i), "buyer")
			if err != nil {
				w.fail("buyer: %v", err)
				continue
			}
			greedy = append(greedy, b)
			repeat := *b
			repeat.r = rng(w.seed, "again "+b.id)
			callers.Go(func() { repeat.buy(w.activities[0], w.sale.limit) })
		}
	}
	time.Sleep(w.sale.behind)
	w.history.note("redis", "! fails over")
	coverage.pass(point)
	coverage.add(point, happens)
	w.betweenCommands(func() {
		old := w.mini.Load()
		w.redisLife.Add(1)
		w.mini.Store(r.mini)
		w.noteFailover(old, r.mini)
		old.Close()
	})
	if w.sale.acquires {
		callers.Go(w.requestPaths)
		w.restart("seckill", 0, point)
	}
	for _, b := range greedy {
		callers.Go(func() { b.buy(w.activities[0], w.sale.limit) })
	}
}
