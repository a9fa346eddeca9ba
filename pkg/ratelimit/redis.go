package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
)

// FailurePolicy is the behaviour of a Redis limiter while Redis is unreachable.
type FailurePolicy uint8

const (
	// FailLocal continues with the share of this process: 1/Instances of the rate. Buckets and LeakyQueue start with
	// 1/Instances of what was left according to the last reply of Redis; the others start with one permit.
	FailLocal FailurePolicy = iota
	// FailOpen allows every request.
	FailOpen
	// FailClosed refuses every request with ErrUnavailable.
	FailClosed
)

// RedisOptions are the options of one limiter. The zero value of a field means its default.
type RedisOptions struct {
	OnFailure FailurePolicy
	// DenyCache is the number of refused keys kept in memory (default 65,536; negative: none).
	DenyCache int
	// Lease is the part of Rate that this process may fetch in advance and grant by itself, at most 0.01 (default 0: each
	// decision is a query to Redis). One call fetches more if more callers wait for it. A permit counts in Redis from the
	// fetch, but may be granted later. So after a pause up to Instances*Lease*Rate permits above the limit may pass in a
	// short interval. In the long run the limit is exact.
	Lease float64
}

// maxLease is the largest part of the quota that one process may lease.
const maxLease = 0.01

// Redis is a limiter that all processes share that use the same Redis and the same name.
type Redis struct {
	conn     *Conn
	name     string
	o        RedisOptions
	clock    clock
	current  atomic.Pointer[redisSpec]
	changing sync.Mutex
	denied   *denyCache
	leases   *leases

	fallback *fallback // for FailLocal, else nil
}

// redisSpec is a Spec in the numbers that the scripts take. lua/prelude.lua describes the ARGV. The fast path about one
// key takes n, the first headArgs of limitArgs, and all ARGV joined by | in one text.
type redisSpec struct {
	p         *params
	limitArgs [6]any  // the arguments that describe the limit
	inherit   int     // 0 as is, 1 in proportion
	script    *script // decides about one key; takes fastArgs
	headArgs  int     // number of limitArgs that the fast path takes
	tail      string  // end of the joined ARGV from inherit on; the same for all queries
	plainArgs string  // joined ARGV of the most common query: one permit, no wait, no debt
	suffix    string  // of the Redis key, by family of algorithms
}

// NewRedis returns a limiter on Redis. All processes must use the same name for it. Two limits under one name are
// allowed only for as long as a change of the limit takes to reach all processes.
func (c *Conn) NewRedis(name string, s Spec, o RedisOptions) (*Redis, error) {
	rs, err := newRedisSpec(s)
	if err != nil {
		return nil, err
	}
	switch {
	case name == "":
		return nil, errors.New("ratelimit: a limiter on Redis needs a name")
	case o.OnFailure > FailClosed:
		return nil, fmt.Errorf("ratelimit: unknown failure policy %d", o.OnFailure)
	case !(o.Lease >= 0 && o.Lease <= maxLease):
		return nil, fmt.Errorf("ratelimit: a lease of %v is not between 0 and %v of the quota", o.Lease, maxLease)
	case o.Lease > 0 && !s.Algorithm.Leases():
		return nil, fmt.Errorf("ratelimit: %s cannot be leased", s.Algorithm)
	}
	l := &Redis{conn: c, name: name, o: o, clock: newClock(nil)}
	l.current.Store(rs)
	if o.DenyCache >= 0 {
		l.denied = newDenyCache(or(o.DenyCache, 1<<16))
	}
	if o.OnFailure == FailLocal {
		l.fallback = newFallback(l)
	}
	if o.Lease > 0 {
		l.leases = newLeases(l)
		c.mu.Lock()
		c.onHeartbeat[l] = l.leases.returnIdle
		c.mu.Unlock()
	}
	return l, nil
}

// Close removes the limiter from its Conn and returns its leases.
func (l *Redis) Close(ctx context.Context) {
	l.conn.mu.Lock()
	delete(l.conn.onHeartbeat, l)
	l.conn.mu.Unlock()
	if l.leases != nil {
		l.leases.returnAll(ctx)
	}
}

func newRedisSpec(s Spec) (*redisSpec, error) {
	p, err := newParams(s)
	if err != nil {
		return nil, err
	}
	rs := &redisSpec{
		p: p, limitArgs: limitArgsOf(p), script: scriptFor("decide", s.Algorithm), suffix: s.Algorithm.family().suffix,
	}
	if s.Inherit == InProportion {
		rs.inherit = 1
	}
	rs.headArgs = 2
	switch s.Algorithm {
	case SlidingWindow:
		rs.headArgs = 3
	case WarmUp:
		rs.headArgs = 4
	}
	rs.tail = fmt.Sprintf("|%d|", rs.inherit)
	for _, n := range rs.limitArgs {
		rs.tail += fmt.Sprintf("%v|", n)
	}
	rs.plainArgs = rs.text(query{n: 1, least: 1}, 0)
	return rs, nil
}

// Spec returns the current Spec of this process.
func (l *Redis) Spec() Spec { return l.current.Load().p.spec }

// SetSpec changes the limit for this process. The values in Redis contain the limit under which they were written, so
// processes that change at slightly different times agree on what is spent.
func (l *Redis) SetSpec(s Spec) error {
	rs, err := newRedisSpec(s)
	if err != nil {
		return err
	}
	if l.leases != nil && !s.Algorithm.Leases() {
		return fmt.Errorf("ratelimit: %s cannot be leased", s.Algorithm)
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	if l.Spec() == rs.p.spec {
		return nil
	}
	before := l.current.Swap(rs)
	l.fallback.convert(before.p, rs.p)
	l.denied.clear()
	if l.leases != nil {
		l.leases.limitChanged()
	}
	return nil
}

// key returns the Redis key of a subject. The hash of the subject is the hash tag: in a cluster, the limits of one
// subject are in one slot and subjects are spread over slots. No text from a caller becomes part of a key.
func (l *Redis) key(rs *redisSpec, subject string) string {
	if subject == "" {
		subject = "\x00" + l.name // the common key of each limiter gets a slot of its own
	}
	sum := sha256.Sum256([]byte(subject))
	var tag [32]byte
	hex.Encode(tag[:], sum[:16])
	return l.conn.o.Prefix + ":{" + string(tag[:]) + "}:" + l.name + ":" + rs.suffix
}

// args appends the ARGV of one key.
func (rs *redisSpec) args(args []any, q query, debt int64) []any {
	args = append(args, q.n, q.least, q.wait/micro, debt, rs.inherit)
	return append(args, rs.limitArgs[:]...)
}

// fastArgs appends the ARGV of a script about one key; see lua/prelude.lua.
func (rs *redisSpec) fastArgs(args []any, q query, debt int64) []any {
	switch {
	case q.n == 0 || q.least != q.n || debt != 0:
		args = append(args, "")
	case q.wait >= micro:
		args = append(args, -q.n)
	default:
		args = append(args, q.n)
	}
	args = append(args, rs.limitArgs[:rs.headArgs]...)
	if q.n == 1 && q.least == 1 && q.wait < micro && debt == 0 {
		return append(args, rs.plainArgs)
	}
	return append(args, rs.text(q, debt))
}

// text returns args joined by |, which lua/fast/rest.lua splits.
func (rs *redisSpec) text(q query, debt int64) string {
	b := make([]byte, 0, 128)
	b = append(strconv.AppendInt(b, q.n, 10), '|')
	b = append(strconv.AppendInt(b, q.least, 10), '|')
	b = append(strconv.AppendInt(b, q.wait/micro, 10), '|')
	b = strconv.AppendInt(b, debt, 10)
	return string(append(b, rs.tail...))
}

// decode converts the seven numbers of a reply about one key.
func (rs *redisSpec) decode(v []int64) decision {
	d := decision{
		ok: v[0] >= 0, granted: max(0, v[0]), remaining: v[1], wait: v[2] * micro, retryAfter: v[3] * micro,
		resetAfter: v[4] * micro, stamp: v[5], debit: v[6],
	}
	if v[3] < 0 {
		d.retryAfter = int64(Never)
	}
	return d
}

// Take decides from a cached refusal, a lease or the fallback, or else with one call to Redis.
func (l *Redis) Take(ctx context.Context, r Request) (Result, error) {
	rs := l.current.Load()
	now := l.clock.now()
	if res, known, err := l.decideFromCache(rs, r, now); known || err != nil {
		return res, err
	}
	if res, done, err := l.takeLocally(ctx, rs, r); done {
		return res, err
	}
	q := rs.p.query(r)
	c := l.fallback.nextReport(rs, r.Key, now)
	var room [argsPerKey]any
	reply, err := l.conn.call(ctx, rs.script, []string{l.key(rs, r.Key)}, rs.fastArgs(room[:0], q, c.debt))
	if err != nil {
		l.fallback.reportFailed(r.Key, c)
		return l.decideWithoutRedis(ctx, rs, r, err)
	}
	d := rs.decode(reply)
	l.fallback.applyReply(rs, r.Key, c, d, true)
	l.denied.add(r.Key, now, q, d)
	return rs.p.result(q, d, SourceRedis), nil
}

// takeLocally decides without a script of its own when the limiter holds leases (it may have to fetch the next one) or
// Redis is unreachable. done is false if Redis has to decide.
func (l *Redis) takeLocally(ctx context.Context, rs *redisSpec, r Request) (res Result, done bool, err error) {
	if l.leases != nil && r.N > 0 {
		if res, done, err = l.leases.take(ctx, rs, r); done {
			return res, true, err
		}
	}
	if l.conn.breaker.allow() {
		return Result{}, false, nil
	}
	res, err = l.decideWithoutRedis(ctx, rs, r, nil)
	return res, true, err
}

// preview decides without a round trip and without charging, as far as that is possible; see jointLimiter.
func (l *Redis) preview(_ context.Context, r Request) (Result, error) {
	res, known, err := l.decideFromCache(l.current.Load(), r, l.clock.now())
	if known || err != nil {
		return res, err
	}
	return Result{Allowed: true, Remaining: Unknown, Limit: l.Spec().Limit, Source: SourceRedis}, nil
}

// decideFromCache decides without Redis about impossible costs and cached refusals. decided is false for all others.
func (l *Redis) decideFromCache(rs *redisSpec, r Request, now int64) (Result, bool, error) {
	if r.N < 0 {
		return Result{}, false, fmt.Errorf("ratelimit: negative cost %d", r.N)
	}
	q := rs.p.query(r)
	if q.least > rs.p.maxCost {
		return rs.p.result(q, decision{retryAfter: int64(Never)}, SourceLocal), true, nil
	}
	if d, refused := l.denied.lookup(r.Key, now, q); refused {
		return rs.p.result(q, d, SourceDenyCache), true, nil
	}
	return Result{}, false, nil
}

// decideWithoutRedis decides by the failure policy. cause is the error of the call to Redis, or nil if there was none.
func (l *Redis) decideWithoutRedis(ctx context.Context, rs *redisSpec, r Request, cause error) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{Limit: rs.p.spec.Limit, Source: SourceFallback}, context.Cause(ctx)
	}
	switch l.o.OnFailure {
	case FailOpen:
		return Result{Allowed: true, Remaining: Unknown, Limit: rs.p.spec.Limit, Source: SourceFallback}, nil
	case FailClosed:
		res := Result{RetryAfter: l.conn.o.ProbeEvery, Limit: rs.p.spec.Limit, Source: SourceFallback}
		if cause == nil {
			cause = ErrUnavailable
		}
		return res, cause
	default:
		res, err := l.fallback.take(rs, r)
		res.Limit, res.Source, res.by = rs.p.spec.Limit, SourceFallback, rs.p
		return res, err
	}
}

// Refund returns the permits that a Take granted.
func (l *Redis) Refund(ctx context.Context, key string, granted Result) error {
	rs := l.current.Load()
	if !rs.p.refundable(granted) {
		return nil
	}
	l.denied.remove(key)
	switch granted.Source {
	case SourceFallback:
		if l.fallback == nil {
			return nil // with FailOpen nothing was charged
		}
		return l.fallback.refund(rs, key, granted)
	case SourceLease:
		if l.leases.restore(key, granted) {
			return nil
		}
	}
	return l.refund(ctx, []*redisSpec{rs}, []string{l.key(rs, key)}, []Result{granted})
}

// refund returns several grants in one script.
func (l *Redis) refund(ctx context.Context, specs []*redisSpec, keys []string, granted []Result) error {
	if !l.conn.Up() {
		return ErrUnavailable
	}
	algorithms := make([]Algorithm, len(specs))
	var args []any
	for i, rs := range specs {
		algorithms[i] = rs.p.spec.Algorithm
		args = append(args, granted[i].Granted, granted[i].stamp, granted[i].debit, 0, rs.inherit)
		args = append(args, rs.limitArgs[:]...)
	}
	_, err := l.conn.call(ctx, scriptFor("refund", algorithms...), keys, args)
	return err
}

// Reset removes what the key has spent. Other processes may refuse it until their cached refusals end.
func (l *Redis) Reset(ctx context.Context, key string) error {
	l.denied.remove(key)
	l.fallback.drop(key)
	if l.leases != nil {
		l.leases.drop(key)
	}
	cctx, cancel := context.WithTimeout(ctx, l.conn.o.Timeout)
	defer cancel()
	if err := l.conn.rdb.Del(cctx, l.key(l.current.Load(), key)).Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}
