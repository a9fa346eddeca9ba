package redisconn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Rights are those of a user of Redis, as docs/kubernetes.md lists them. Their keys begin with check-config: after a
// prefix, and expire within a second.
type Rights struct {
	prefixes []string // of the keys
	channel  string   // of publish and subscribe; "" if the user needs neither
	// calls that a script can make, with the arguments that Redis requires before it checks a right. KEY is a key, which
	// holds a string: a call that expects another type changes nothing.
	calls []string
	// outside are calls that no script can make.
	outside []string
	// transactions are MULTI and EXEC.
	transactions bool
}

// GateRights returns the rights of the gate's user.
func GateRights() Rights {
	return Rights{
		prefixes: []string{"fs:"},
		calls: []string{
			"set KEY 0 PX 1000", "get KEY", "getrange KEY 0 0", "setrange KEY 0 1", "exists KEY", "rename KEY KEY",
			"persist KEY", "pexpireat KEY 9999999999999", "pexpire KEY 1000", "pttl KEY", "ping", "time", "info memory",
			"hget KEY f", "hset KEY f 1", "hsetnx KEY f 1", "hdel KEY f", "hexists KEY f", "hgetall KEY", "hincrby KEY f 1",
			"hlen KEY", "hmget KEY f", "hscan KEY 0",
			"sadd KEY m", "srem KEY m", "scard KEY", "smembers KEY",
			"zadd KEY 1 m", "zcard KEY", "zcount KEY 0 1", "zincrby KEY 1 m", "zpopmin KEY", "zrange KEY 0 1",
			"zrangebyscore KEY 0 1", "zrevrangebyscore KEY 1 0", "zrem KEY m", "zremrangebyscore KEY 0 1", "zscore KEY m",
			"xadd KEY * f 1", "xack KEY g 1-1", "xautoclaim KEY g c 1 0", "xdel KEY 1-1", "xlen KEY", "xpending KEY g",
			"xrange KEY - +", "xreadgroup GROUP g c STREAMS KEY >", "xgroup|create KEY g $", "del KEY", "unlink KEY",
		},
		outside: []string{"wait 0 1", "evalsha " + noScript + " 1 KEY"},
	}
}

// LimitRights returns the rights of the limits' user, without CONFIG GET: a warning is all that depends on it.
func LimitRights() Rights {
	return Rights{
		prefixes: []string{"rl:", "presence:", "fs:challenge:", "fs:sign-in:"},
		channel:  "rl:check-config",
		calls: []string{
			"set KEY 0 PX 1000", "get KEY", "incr KEY", "expire KEY 1", "pexpire KEY 1000", "pttl KEY", "ping", "time",
			"hget KEY f", "hset KEY f 1", "hdel KEY f", "hexists KEY f", "hmget KEY f", "hgetall KEY", "hincrby KEY f 1",
			"lindex KEY 0", "llen KEY", "ltrim KEY 0 1", "lrem KEY 0 1", "rpush KEY 1",
			"zadd KEY 1 m", "zcard KEY", "zcount KEY 0 1", "zscore KEY m", "zrem KEY m", "zremrangebyscore KEY 0 1",
			"zrangebyscore KEY 0 1", "zrevrange KEY 0 1", "publish rl:check-config 1", "del KEY",
		},
		outside: []string{"evalsha " + noScript + " 1 KEY"}, transactions: true,
	}
}

// noScript is the hash of no script.
const noScript = "ffffffffffffffffffffffffffffffffffffffff"

// perPrefix is the number of keys of each prefix, in as many slots: a client of a single server gets MOVED for one of
// them if the server is a node of a cluster.
const perPrefix = 16

// attempts is a script that makes calls, and returns the failed ones, each followed by its error.
const attempts = `local failed = {}
for i = 1, #ARGV do
  local call = {}
  for word in string.gmatch(ARGV[i], '%S+') do
    if word == 'KEY' then word = KEYS[1] end
    for part in string.gmatch(#call == 0 and string.gsub(word, '|', ' ') or word, '%S+') do call[#call + 1] = part end
  end
  local reply = redis.pcall(unpack(call))
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = string.match(ARGV[i], '%S+')
    failed[#failed + 1] = reply.err
  end
end
return failed`

// CheckRights makes every call that the rights permit, on keys of its own. It fails if the user lacks one, if a master
// of a cluster is unreachable, or if the server does not take writes.
func CheckRights(ctx context.Context, rdb redis.UniversalClient, r Rights) error {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return err
	}
	cluster, isCluster := rdb.(*redis.ClusterClient)
	if isCluster {
		ping := func(ctx context.Context, master *redis.Client) error { return master.Ping(ctx).Err() }
		if err := cluster.ForEachMaster(ctx, ping); err != nil {
			return err
		}
	}
	var key string
	for _, prefix := range r.prefixes {
		for range perPrefix {
			key = prefix + "check-config:" + rand.Text()
			if err := r.attempt(ctx, rdb, key); err != nil {
				return err
			}
		}
	}
	var missing []string
	outside := r.outside
	if isCluster {
		outside = append(outside, "asking")
	}
	for _, call := range outside {
		var args []any
		for _, word := range strings.Fields(strings.ReplaceAll(call, "KEY", key)) {
			args = append(args, word)
		}
		if err := rdb.Do(ctx, args...).Err(); err != nil && Denied(err) {
			missing = append(missing, "+"+args[0].(string))
		}
	}
	if r.channel != "" {
		if err := subscribe(ctx, rdb, r.channel); Denied(err) {
			missing = append(missing, "+subscribe +unsubscribe &"+r.channel)
		}
	}
	if r.transactions {
		_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Get(ctx, key).Err() })
		if Denied(err) {
			missing = append(missing, "+multi +exec")
		}
	}
	return lacks(missing)
}

// attempt makes the calls of a script on one key.
func (r Rights) attempt(ctx context.Context, rdb redis.UniversalClient, key string) error {
	args := make([]any, len(r.calls))
	for i, call := range r.calls {
		args[i] = call
	}
	failed, err := rdb.Eval(ctx, attempts, []string{key}, args...).StringSlice()
	if err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	var missing []string
	for i := 0; i+1 < len(failed); i += 2 {
		switch name, text := failed[i], failed[i+1]; {
		case deniedInScript(text):
			missing = append(missing, "+"+name)
		case strings.Contains(text, "READONLY"), strings.Contains(text, "NOREPLICAS"), strings.Contains(text, "MISCONF"):
			return fmt.Errorf("%s: %s", name, text)
		}
	}
	return lacks(missing)
}

// subscribe subscribes to a channel, and ends that.
func subscribe(ctx context.Context, rdb redis.UniversalClient, channel string) error {
	ps := rdb.Subscribe(ctx, channel)
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(ctx); err != nil {
		return err
	}
	if err := ps.Unsubscribe(ctx, channel); err != nil {
		return err
	}
	_, err := ps.Receive(ctx)
	return err
}

// lacks returns an error that names the missing rights, or nil without one.
func lacks(rights []string) error {
	if len(rights) == 0 {
		return nil
	}
	return errors.New("the user lacks " + strings.Join(rights, " "))
}
