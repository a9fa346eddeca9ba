package sim

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	luajson "github.com/alicebob/miniredis/v2/gopher-json"
	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// The embedded Redis creates a new Lua state for every script, which took most of a sale's time. Instead, scripts run
// here on Lua states that are kept, as Redis keeps its one. The commands that they call run on the embedded Redis,
// under its lock.

// scripts of all sales, compiled once, by their hash.
var scripts sync.Map // string -> *lua.FunctionProto

func compiled(hash, source string) (*lua.FunctionProto, error) {
	if p, ok := scripts.Load(hash); ok {
		return p.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(source), "script")
	if err != nil {
		return nil, err
	}
	p, err := lua.Compile(chunk, "script")
	if err == nil {
		scripts.Store(hash, p)
	}
	return p, err
}

func hashOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// interpreter is a Lua state and the peer through which its scripts call commands.
type interpreter struct {
	state *lua.LState
	srv   *server.Server
	peer  *server.Peer
	out   bytes.Buffer
	w     *bufio.Writer
	r     *bufio.Reader
	full  bool // the script began at full memory
	wrote bool
}

var interpreters = sync.Pool{New: func() any { return newInterpreter() }}

// strict refuses globals as Redis does.
const strict = `
setmetatable(_G, {
  __newindex = function(_, name) error("Script attempted to create global variable '" .. tostring(name) .. "'", 2) end,
  __index = function(_, name) error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2) end,
})`

func newInterpreter() *interpreter {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	in := &interpreter{state: l}
	in.w, in.r = bufio.NewWriter(&in.out), bufio.NewReader(&in.out)
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath},
	} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(lib.open), Protect: true}, lua.LString(lib.name)); err != nil {
			panic(err)
		}
	}
	luajson.Preload(l)
	if err := l.DoString(`cjson = require("json")`); err != nil {
		panic(err)
	}
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":  func(l *lua.LState) int { return in.call(l, true) },
		"pcall": func(l *lua.LState) int { return in.call(l, false) },
	}))
	if err := l.DoString(strict); err != nil {
		panic(err)
	}
	return in
}

// call implements redis.call and redis.pcall.
func (in *interpreter) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		switch a := l.Get(i + 1).(type) {
		case lua.LNumber, lua.LString:
			args[i] = a.String()
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	reply, err := in.dispatch(args)
	switch {
	case err != nil && raise:
		l.RaiseError("%s", err.Error())
	case err != nil:
		t := l.NewTable()
		t.RawSetString("err", lua.LString(err.Error()))
		l.Push(t)
	default:
		l.Push(toLua(l, reply))
	}
	return 1
}

// dispatch runs a command of a script. At full memory Redis refuses commands that may need memory until the script has
// called a command that writes.
func (in *interpreter) dispatch(args []string) (any, error) {
	name := strings.ToUpper(args[0])
	if in.full && !in.wrote && growing[name] {
		return nil, errors.New(outOfMemory)
	}
	in.wrote = in.wrote || growing[name] || shrinking[name]
	in.out.Reset()
	in.r.Reset(&in.out)
	in.srv.Dispatch(in.peer, args)
	in.peer.Flush()
	return server.ParseReply(in.r)
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case server.Simple:
		t := l.NewTable()
		t.RawSetString("ok", lua.LString(r))
		return t
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, e := range r {
			t.Append(toLua(l, e))
		}
		return t
	}
	panic(fmt.Sprintf("sim: unexpected reply %T of a command", reply))
}

func writeReply(w *server.Writer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			w.WriteInt(1)
		} else {
			w.WriteNull()
		}
	case lua.LNumber:
		w.WriteInt(int(v))
	case lua.LString:
		w.WriteBulk(string(v))
	case *lua.LTable:
		if e, ok := v.RawGetString("err").(lua.LString); ok {
			w.WriteError(string(e))
			return
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			w.WriteInline(string(s))
			return
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		w.WriteLen(n)
		for i := range n {
			writeReply(w, v.RawGetInt(i+1))
		}
	default:
		w.WriteNull()
	}
}

// run runs a script and writes its reply to the peer. The server is locked.
func (in *interpreter) run(to *server.Peer, p *lua.FunctionProto, keys, argv []string) {
	l := in.state
	list := func(values []string) *lua.LTable {
		t := l.CreateTable(len(values), 0)
		for _, v := range values {
			t.Append(lua.LString(v))
		}
		return t
	}
	l.G.Global.RawSetString("KEYS", list(keys))
	l.G.Global.RawSetString("ARGV", list(argv))
	l.Push(l.NewFunctionFromProto(p))
	err := l.PCall(0, 1, nil)
	to.Block(func(w *server.Writer) {
		if err != nil && strings.Contains(err.Error(), outOfMemory) {
			w.WriteError(outOfMemory + " script: sim")
			return
		}
		if err != nil {
			w.WriteError("ERR Error running script: " + strings.ReplaceAll(err.Error(), "\n", " "))
			return
		}
		writeReply(w, l.Get(1))
	})
	l.SetTop(0)
}

// keepStates makes the running embedded Redis handle EVAL and EVALSHA with these interpreters, and refuse commands that
// may need memory while full.
func keepStates(m *miniredis.Miniredis, full func() bool) error {
	srv := m.Server()
	known := map[string]bool{} // this server's; guarded by its lock
	var inner any              // marks a command of a script; obtained while the server runs one
	srv.SetPreHook(func(c *server.Peer, _ string, _ ...string) bool { inner = c.Ctx; return false })
	var out bytes.Buffer
	first := server.NewPeer(bufio.NewWriter(&out))
	srv.Dispatch(first, []string{"EVAL", "return redis.call('TIME')", "0"})
	if inner == nil || inner == first.Ctx {
		return fmt.Errorf("sim: the embedded Redis does not run scripts: %s", out.String())
	}
	srv.SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if c.Ctx != inner && growing[cmd] && full() {
			c.WriteError(outOfMemory)
			return true
		}
		if cmd != "EVAL" && cmd != "EVALSHA" || len(args) < 2 {
			return false
		}
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 0 || n > len(args)-2 {
			return false
		}
		hash := args[0]
		if cmd == "EVAL" {
			hash = hashOf(args[0])
		}
		m.Lock()
		defer m.Unlock()
		if cmd == "EVALSHA" && !known[hash] {
			c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
			return true
		}
		p, err := compiled(hash, args[0])
		if err != nil {
			c.WriteError("ERR Error compiling script: " + err.Error())
			return true
		}
		known[hash] = true
		in := interpreters.Get().(*interpreter)
		defer interpreters.Put(in)
		in.srv, in.peer = srv, server.NewPeer(in.w)
		in.peer.Ctx = inner
		in.full, in.wrote = full(), false
		in.run(c, p, args[2:2+n], args[2+n:])
		return true
	})
	return nil
}
