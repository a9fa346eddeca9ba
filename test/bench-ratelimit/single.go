package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/ratelimit"
)

func connect(ctx context.Context, addr string) (redis.UniversalClient, error) {
	rdb := ratelimit.Connect(strings.Split(addr, ","), 6, func(o *redis.UniversalOptions) {
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 10*time.Second, 10*time.Second, 10*time.Second
	})
	return rdb, rdb.Ping(ctx).Err()
}

// The raw scripts make the same reads and writes as those of the limiters when they grant to an existing key. They
// take as many arguments of about the same length, return as many numbers, and decide nothing.
const reply = "\nreturn {1, 2, 3, 4, 5, 6, 7}"

var raw = map[ratelimit.Algorithm]*redis.Script{
	ratelimit.TokenBucket: redis.NewScript(`redis.call('TIME') redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '897177600000000;115200000;115200000000', 'PX', 3600000)` + reply),
	ratelimit.FixedWindow: redis.NewScript(`redis.call('TIME') redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '17;490000;3600000000;1000', 'PX', 3600000)` + reply),
	ratelimit.SlidingWindow: redis.NewScript(`redis.call('TIME') redis.call('HGETALL', KEYS[1])
redis.call('HINCRBY', KEYS[1], '4900000', '1') redis.call('PEXPIRE', KEYS[1], 3600000)` + reply),
	ratelimit.SlidingLog: redis.NewScript(`redis.call('TIME') redis.call('LLEN', KEYS[1])
redis.call('LINDEX', KEYS[1], -1) redis.call('LINDEX', KEYS[1], 0)
redis.call('RPUSH', KEYS[1], '28036800557000') redis.call('PEXPIRE', KEYS[1], 3600000)` + reply),
	ratelimit.WarmUp: redis.NewScript(`redis.call('TIME') redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '28036800557000;17.123456789012345;1000', 'PX', 3600000)` + reply),
}

// inMemory turns off the append-only file of Redis during the measurement: limits need no durability, and the disk
// would dominate the times.
func inMemory(ctx context.Context, rdb redis.UniversalClient) (restore func(), err error) {
	const name = "appendonly"
	was, err := rdb.ConfigGet(ctx, name).Result()
	if err == nil {
		err = rdb.ConfigSet(ctx, name, "no").Err()
	}
	return func() { _ = rdb.ConfigSet(context.WithoutCancel(ctx), name, was[name]).Err() }, err
}

// single compares decisions with one call to Redis each.
func single(ctx context.Context, addr string, rounds int) error {
	rdb, err := connect(ctx, addr)
	if err != nil {
		return fmt.Errorf("no Redis at %s: %w", addr, err)
	}
	defer rdb.Close()
	restore, err := inMemory(ctx, rdb)
	if err != nil {
		return err
	}
	defer restore()
	subjects := make([]string, 10_000) // avoids a hot key
	for i := range subjects {
		subjects[i] = "user-" + strconv.Itoa(i)
	}
	subject := func(i int) string { return subjects[i%len(subjects)] }
	prefix := "bench-" + strconv.FormatInt(rand.Int64(), 36)
	conn := ratelimit.NewConn(rdb, ratelimit.ConnOptions{Timeout: 10 * time.Second, Prefix: prefix})
	for _, a := range []ratelimit.Algorithm{
		ratelimit.TokenBucket, ratelimit.FixedWindow, ratelimit.SlidingWindow, ratelimit.SlidingLog, ratelimit.WarmUp,
	} {
		limit := ratelimit.Limit{Rate: 1000, Period: time.Hour}
		args := []any{
			1, 115200000, 115200000000, "1|1|0|0|0|115200000|115200000000|1000|1920000000||115200000;115200000000|",
		}
		switch a {
		case ratelimit.SlidingWindow:
			args = []any{1, 360000000, 1000, 10, "1|1|0|0|0|360000000|1000|10|||360000000;1000;10|"}
		case ratelimit.WarmUp:
			limit.Burst = 1000 // as for the others, whose burst is their rate
			args = []any{1, 3600000, 1000, 10000000, 3, "1|1|0|0|0|3600000|1000|10000000|3|14396400000||"}
		}
		l, err := conn.NewRedis("one", ratelimit.Spec{Algorithm: a, Limit: limit},
			ratelimit.RedisOptions{DenyCache: -1})
		if err != nil {
			return err
		}
		script := raw[a]
		if err := script.Load(ctx, rdb).Err(); err != nil {
			return err
		}
		contenders := []*contender{
			{name: "raw EVALSHA", decide: func(i int) {
				script.EvalSha(ctx, rdb, []string{prefix + ":raw:" + a.String() + subject(i)}, args...)
			}},
			{name: a.String(), decide: func(i int) { _, _ = l.Take(ctx, ratelimit.Request{Key: subject(i), N: 1}) }},
		}
		if a == ratelimit.TokenBucket {
			other := redis_rate.NewLimiter(rdb)
			contenders = append(contenders, &contender{name: "redis_rate", decide: func(i int) {
				_, _ = other.Allow(ctx, prefix+subject(i), redis_rate.PerHour(1000))
			}})
		}
		if err := oneByOne(ctx, rounds, contenders); err != nil {
			return err
		}
		if err := manyAtOnce(ctx, rdb, rounds, contenders); err != nil {
			return err
		}
	}
	return nil
}

func oneByOne(ctx context.Context, rounds int, contenders []*contender) error {
	for _, c := range contenders {
		c.calls = make([][]time.Duration, 1)
	}
	if err := takeTurnsByCall(ctx, rounds, 500, contenders); err != nil {
		return err
	}
	fmt.Printf("\nRedis without a disk, one call per decision, one at a time\n%-34s %8s %8s  %s\n",
		"", "us", "p99 us", "times as fast as raw")
	for _, c := range contenders {
		fmt.Printf("%-34s %8.1f %8d  %s\n",
			c.name, quantile(c.spent, 0.5)/1000, c.p99().Microseconds(), c.against(contenders[0]))
	}
	compareWithOther(contenders, func(c *contender) []float64 { return c.spent })
	return nil
}

func manyAtOnce(ctx context.Context, rdb redis.UniversalClient, rounds int, contenders []*contender) error {
	const goroutines = 64
	for _, c := range contenders {
		c.spent, c.cpu, c.calls = nil, nil, make([][]time.Duration, goroutines)
	}
	used := func() (time.Duration, error) {
		own, err := ownTime()
		if err != nil {
			return 0, err
		}
		server, err := serverTime(ctx, rdb)
		return own + server, err
	}
	if err := takeTurns(ctx, rounds, 2000, goroutines, used, contenders); err != nil {
		return err
	}
	fmt.Printf("\nRedis without a disk, one call per decision, %d at a time (processor time: of both sides)\n"+
		"%-34s %8s %8s %8s  %-20s %s\n",
		goroutines, "", "us", "p99 us", "cpu us", "times as fast as raw", "by processor time")
	for _, c := range contenders {
		fmt.Printf("%-34s %8.1f %8d %8.1f  %-20s %s\n",
			c.name, quantile(c.spent, 0.5)/1000, c.p99().Microseconds(), quantile(c.cpu, 0.5)/1000,
			c.against(contenders[0]), summary(c.cpu, contenders[0].cpu))
	}
	compareWithOther(contenders, func(c *contender) []float64 { return c.cpu })
	return nil
}

// compareWithOther prints the comparison of the limiter with the other library.
func compareWithOther(contenders []*contender, by func(*contender) []float64) {
	if len(contenders) == 3 {
		mine, other := contenders[1], contenders[2]
		fmt.Printf("%-34s %s\n", mine.name+" relative to "+other.name, summary(by(mine), by(other)))
	}
}

// serverTime returns the processor time used by Redis.
func serverTime(ctx context.Context, rdb redis.UniversalClient) (sum time.Duration, err error) {
	info, err := rdb.Info(ctx, "cpu").Result()
	for line := range strings.Lines(info) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok && (name == "used_cpu_sys" || name == "used_cpu_user") {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum, err
}
