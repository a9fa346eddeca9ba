package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Charge is one of several requests that TakeAll charges together.
type Charge struct {
	Limiter Limiter
	Request Request
}

// TakeAll charges all limiters or none. It writes the decision of each into results, which must be as long as charges.
// If it returns false, results[i].Allowed is false for those that refused, and nothing stays charged. The longest
// Result.Wait holds for the caller: it must wait that long before it continues.
//
// Limiters on one Redis without leases are decided by one script. All other limiters are previewed first and then
// charged in turn, before that script runs. Limiters with leases, and all while Redis is unreachable, are among them.
// If one refuses at that point, because another caller was faster, the charges made so far are refunded. In between
// they may have refused another caller wrongly, so too few requests pass, never too many. In a Redis Cluster the same
// holds for keys of different subjects.
func TakeAll(ctx context.Context, charges []Charge, results []Result) (allowed bool, err error) {
	if len(charges) == 1 {
		results[0], err = charges[0].Limiter.Take(ctx, charges[0].Request)
		return results[0].Allowed && err == nil, err
	}
	t := jointTake{charges: charges, results: results[:len(charges)]}
	return t.run(ctx)
}

// Cancel refunds what TakeAll charged, for a request that is abandoned while it waits.
func Cancel(ctx context.Context, charges []Charge, results []Result) error {
	var errs []error
	for i, c := range charges {
		if results[i].Granted > 0 {
			errs = append(errs, c.Limiter.Refund(ctx, c.Request.Key, results[i]))
		}
	}
	return errors.Join(errs...)
}

// jointLimiter is a Limiter that TakeAll can combine with others. All limiters of this package implement it; limiters
// of other packages take part through soloLimiter.
type jointLimiter interface {
	Limiter
	// preview decides without charging. Where only Redis can decide, it returns an allowing Result whose Remaining is
	// Unknown, without a round trip.
	preview(ctx context.Context, r Request) (Result, error)
	// scripted returns the limiter if one script can decide about it together with others, else nil.
	scripted() *Redis
	// base returns the limiter itself. It differs from the Limiter of a Charge whose type embeds a limiter of this
	// package and overrides its methods: such a type must not be bypassed.
	base() Limiter
}

func (l *Local) scripted() *Redis { return nil }
func (l *Local) base() Limiter    { return l }

func (l *Redis) scripted() *Redis { return l }
func (l *Redis) base() Limiter    { return l }

// soloLimiter adapts a Limiter of another package. Its preview costs a Take of 0 permits and is only an estimate.
type soloLimiter struct{ Limiter }

func (l soloLimiter) scripted() *Redis { return nil }
func (l soloLimiter) base() Limiter    { return l.Limiter }

func (l soloLimiter) preview(ctx context.Context, r Request) (Result, error) {
	res, err := l.Take(ctx, Request{Key: r.Key})
	res.Allowed = err == nil && (res.Remaining >= r.N || r.MaxWait > 0 || r.AtMost)
	return res, err
}

func asJoint(l Limiter) jointLimiter {
	if j, ok := l.(jointLimiter); ok && j.base() == l {
		return j
	}
	return soloLimiter{l}
}

// jointTake is one call of TakeAll.
type jointTake struct {
	charges []Charge
	results []Result
	charged []int // indexes of the charges to refund if another one is refused
	errs    []error
}

const fewCharges = 4 // that need no allocation for their scriptedCharges

// scriptedCharge is a charge that a script can decide. i is its index; prepare sets the fields below.
type scriptedCharge struct {
	i int
	l *Redis

	rs     *redisSpec
	q      query
	report report
}

func (t *jointTake) run(ctx context.Context) (bool, error) {
	var buf [fewCharges]scriptedCharge
	scripted := t.preview(ctx, buf[:0])
	if t.anyRefused() {
		return t.refundAll(ctx)
	}
	for i, next := 0, 0; i < len(t.charges); i++ {
		if next < len(scripted) && scripted[next].i == i {
			next++
			continue
		}
		res, err := t.charges[i].Limiter.Take(ctx, t.charges[i].Request)
		t.record(i, res, err)
	}
	if t.anyRefused() {
		return t.refundAll(ctx)
	}
	scripted = slices.DeleteFunc(scripted, func(c scriptedCharge) bool {
		res, done, err := c.l.takeLocally(ctx, c.l.current.Load(), t.charges[c.i].Request)
		if done {
			t.record(c.i, res, err)
		}
		return done
	})
	for len(scripted) > 0 && !t.anyRefused() {
		var group []scriptedCharge
		group, scripted = t.nextGroup(scripted)
		t.takeGroup(ctx, group)
	}
	if t.anyRefused() {
		return t.refundAll(ctx)
	}
	return true, errors.Join(t.errs...)
}

// preview previews every limiter, without a round trip to Redis. It appends the charges that a script can decide, in
// order.
func (t *jointTake) preview(ctx context.Context, scripted []scriptedCharge) []scriptedCharge {
	for i, c := range t.charges {
		l := asJoint(c.Limiter)
		res, err := l.preview(ctx, c.Request)
		t.results[i] = res
		t.addError(err)
		if r := l.scripted(); r != nil {
			scripted = append(scripted, scriptedCharge{i: i, l: r})
		}
	}
	return scripted
}

// record stores the decision about charge i, and remembers a grant for refundAll.
func (t *jointTake) record(i int, res Result, err error) {
	t.results[i] = res
	t.addError(err)
	if res.Granted > 0 {
		t.charged = append(t.charged, i)
	}
}

// nextGroup moves the charges to the front that one script can decide together with the first: those on the same Conn;
// in a cluster, those with the same non-empty key, whose Redis keys are in the same slot.
func (t *jointTake) nextGroup(scripted []scriptedCharge) (group, rest []scriptedCharge) {
	first := scripted[0]
	firstKey := t.charges[first.i].Request.Key
	n := 0
	for k, c := range scripted {
		sameSlot := !c.l.conn.cluster || k == 0 || firstKey != "" && t.charges[c.i].Request.Key == firstKey
		if c.l.conn == first.l.conn && sameSlot {
			copy(scripted[n+1:k+1], scripted[n:k])
			scripted[n] = c
			n++
		}
	}
	return scripted[:n], scripted[n:]
}

// groupCall is one script call that decides about several limiters on one Redis.
type groupCall struct {
	conn   *Conn
	script *script
	keys   []string
	args   []any
	sent   int64 // local time of the call, ns since 1970
}

// takeGroup decides about limiters on one Redis with one script.
func (t *jointTake) takeGroup(ctx context.Context, group []scriptedCharge) {
	if len(group) == 1 {
		i := group[0].i
		res, err := t.charges[i].Limiter.Take(ctx, t.charges[i].Request)
		t.record(i, res, err)
		return
	}
	call, ok := t.prepare(group)
	if !ok {
		return
	}
	reply, err := call.conn.call(ctx, call.script, call.keys, call.args)
	if err != nil {
		for _, c := range group {
			r := t.charges[c.i].Request
			c.l.fallback.reportFailed(r.Key, c.report)
			res, err := c.l.decideWithoutRedis(ctx, c.rs, r, err)
			t.record(c.i, res, err)
		}
		return
	}
	all := true
	for k := range group {
		all = all && reply[k*repliesPerKey] >= 0
	}
	for k := range group {
		t.applyReply(&group[k], reply[k*repliesPerKey:(k+1)*repliesPerKey], call.sent, all)
	}
}

// prepare builds the script call for a group and completes its elements. It returns false, with an error in t, if one
// limiter occurs twice with one key: the script would decide about both before it charges either.
func (t *jointTake) prepare(group []scriptedCharge) (call groupCall, ok bool) {
	algorithms := make([]Algorithm, len(group))
	call.keys = make([]string, len(group))
	call.args = make([]any, 0, len(group)*argsPerKey)
	for k := range group {
		c := &group[k]
		r := t.charges[c.i].Request
		call.conn, call.sent = c.l.conn, c.l.clock.now()
		c.rs = c.l.current.Load()
		c.q = c.rs.p.query(r)
		algorithms[k] = c.rs.p.spec.Algorithm
		call.keys[k] = c.l.key(c.rs, r.Key)
		if slices.Contains(call.keys[:k], call.keys[k]) {
			t.results[c.i] = Result{}
			t.addError(fmt.Errorf("ratelimit: limiter %s occurs twice with one key", c.l.name))
			return call, false
		}
	}
	for k := range group {
		c := &group[k]
		c.report = c.l.fallback.nextReport(c.rs, t.charges[c.i].Request.Key, call.sent)
		call.args = c.rs.args(call.args, c.q, c.report.debt)
	}
	call.script = scriptFor("decide", algorithms...)
	return call, true
}

// applyReply stores the decision about one limiter of a group. all is whether every limiter of the group granted:
// otherwise the script charged none of them.
func (t *jointTake) applyReply(c *scriptedCharge, reply []int64, sent int64, all bool) {
	key := t.charges[c.i].Request.Key
	d := c.rs.decode(reply)
	c.l.fallback.applyReply(c.rs, key, c.report, d, all)
	if all {
		c.l.denied.add(key, sent, c.q, d)
		t.record(c.i, c.rs.p.result(c.q, d, SourceRedis), nil)
		return
	}
	granted := d.ok
	if d.granted > 0 { // the script did not keep this grant
		d.remaining, d.granted, d.wait, d.retryAfter = d.remaining+d.granted, 0, 0, 0
	}
	t.results[c.i] = c.rs.p.result(c.q, d, SourceRedis)
	t.results[c.i].Allowed = granted
	if !granted {
		c.l.denied.add(key, sent, c.q, d)
	}
}

func (t *jointTake) addError(err error) {
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

func (t *jointTake) anyRefused() bool {
	return slices.ContainsFunc(t.results, func(r Result) bool { return !r.Allowed })
}

// refundAll refunds what was charged so far, even if ctx has ended, and returns false and the errors collected.
func (t *jointTake) refundAll(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	for _, i := range t.charged {
		t.addError(t.charges[i].Limiter.Refund(ctx, t.charges[i].Request.Key, t.results[i]))
		t.results[i].Remaining += t.results[i].Granted
		t.results[i].Granted, t.results[i].Wait = 0, 0
	}
	return false, errors.Join(t.errs...)
}
