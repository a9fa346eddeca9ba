package sim

import (
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// outOfMemory is the error of a Redis that has reached maxmemory.
const outOfMemory = "OOM command not allowed when used memory > 'maxmemory'."

// growing holds the commands that Redis refuses at full memory (flag denyoom), as far as Flashsale uses them or may.
var growing = set("APPEND", "DECR", "DECRBY", "GETSET", "HINCRBY", "HMSET", "HSET", "HSETNX", "INCR", "INCRBY", "LPUSH", "MSET", "PSETEX",
	"RPUSH", "SADD", "SET", "SETEX", "SETNX", "SETRANGE", "XADD", "XGROUP", "XSETID", "ZADD", "ZINCRBY")

// shrinking holds the other commands that write.
var shrinking = set("DEL", "EXPIRE", "HDEL", "PERSIST", "PEXPIRE", "SREM", "UNLINK", "XACK", "XAUTOCLAIM", "XCLAIM", "XDEL", "XREADGROUP",
	"XTRIM", "ZREM", "ZREMRANGEBYSCORE")

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

// needed holds the scripts that must run at full memory: they free memory, or change what exists.
var needed = set("script ack", "script settle", "script release", "script drop", "script adjust", "script adjust undo",
	"script repair", "script correct", "script rebuild_buyer", "script configure", "script sale", "script confirm")

// fill makes Redis report that little memory is left, then refuse to use more, and frees memory some time later.
func (w *world) fill() {
	w.history.note("redis", "! is short of memory")
	w.tight.Store(time.Now().UnixNano())
	time.Sleep(w.sale.tight)
	w.history.note("redis", "! is full")
	w.betweenCommands(func() { w.full.Store(true) })
	coverage.pass("redis: full")
	coverage.add("redis: full", happens)
	time.Sleep(w.sale.fullFor)
	w.betweenCommands(func() { w.full.Store(false) })
	w.tight.Store(0)
	w.history.note("redis", "! has memory again")
}

// tightFor returns for how long Redis has reported that little memory is left.
func (w *world) tightFor() time.Duration {
	if since := w.tight.Load(); since > 0 {
		return time.Duration(time.Now().UnixNano() - since)
	}
	return 0
}

// memory returns the lines of INFO about memory.
func (w *world) memory() string {
	if w.tight.Load() > 0 {
		return "used_memory:95\r\nmaxmemory:100\r\n"
	}
	return "used_memory:10\r\nmaxmemory:100\r\n"
}

// watchMemory requires that the scripts that must run at full memory are not refused.
func (w *world) watchMemory(script string, err error) {
	var said redis.Error
	if !errors.As(err, &said) || !strings.Contains(err.Error(), outOfMemory) {
		return
	}
	if needed[script] {
		w.fail("%s was refused at full memory", script)
	}
	if script == "script reserve" {
		coverage.end("purchases refused at full memory")
	}
}
