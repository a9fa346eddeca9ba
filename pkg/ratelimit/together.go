package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Charge is a request to one limiter, as a part of several.
type Charge struct {
	Limiter Limiter
	Request Request
}

// TakeAll charges all limiters or none, and puts what each says into results, which has the length of charges. Where it
// answers false, results[i].Allowed tells which of them refused, and nothing is charged.
//
// Limiters on one Redis are decided by one script. Limiters of other kinds are looked at first and charged in turn; should
// one refuse then, because somebody else was quicker, the others get back what they gave, and in between may have refused
// somebody whom they could have served: too few, never too many. In a Redis Cluster the same holds for keys of different
// subjects. Wait is the longest of all waits: the caller goes on after that.
func TakeAll(ctx context.Context, charges []Charge, results []Result) (allowed bool, err error) {
	if len(charges) == 1 {
		results[0], err = charges[0].Limiter.Take(ctx, charges[0].Request)
		return results[0].Allowed && err == nil, err
	}
	t := together{charges: charges, results: results[:len(charges)]}
	return t.run(ctx)
}

type together struct {
	charges []Charge
	results []Result
	charged []int // whose grants have to go back if somebody refuses
	errs    []error
}

func (t *together) run(ctx context.Context) (bool, error) {
	remote := t.looks(ctx)
	if t.refused() {
		return t.undo(ctx)
	}
	for i, c := range t.charges {
		if _, ok := c.Limiter.(*Redis); !ok {
			t.take(ctx, i)
		}
	}
	if t.refused() {
		return t.undo(ctx)
	}
	remote = slices.DeleteFunc(remote, func(i int) bool { return t.takesByItself(ctx, i) })
	for len(remote) > 0 && !t.refused() {
		var group []int
		group, remote = t.group(remote)
		t.takeGroup(ctx, group)
	}
	if t.refused() {
		return t.undo(ctx)
	}
	return true, errors.Join(t.errs...)
}

// looks asks everybody who needs no round trip whether he would refuse. It answers who needs one.
func (t *together) looks(ctx context.Context) (remote []int) {
	for i, c := range t.charges {
		l, ok := c.Limiter.(*Redis)
		if !ok {
			t.peek(ctx, i)
			continue
		}
		res, known, err := l.known(l.current.Load(), c.Request, l.clock.now())
		if t.fail(err); known || err != nil {
			t.results[i] = res
			continue
		}
		t.results[i] = Result{Allowed: true, Remaining: Unknown, Limit: l.Spec().Limit, Source: SourceRedis}
		remote = append(remote, i)
	}
	return remote
}

// peek looks whether a limiter would grant.
func (t *together) peek(ctx context.Context, i int) {
	c := t.charges[i]
	if p, ok := c.Limiter.(*Local); ok {
		t.results[i] = p.wouldGrant(c.Request)
		return
	}
	res, err := c.Limiter.Take(ctx, Request{Key: c.Request.Key})
	t.fail(err)
	res.Allowed = err == nil && (res.Remaining >= c.Request.N || c.Request.MaxWait > 0 || c.Request.AtMost)
	t.results[i] = res
}

func (t *together) take(ctx context.Context, i int) {
	res, err := t.charges[i].Limiter.Take(ctx, t.charges[i].Request)
	t.results[i] = res
	t.fail(err)
	if res.Granted > 0 {
		t.charged = append(t.charged, i)
	}
}

// takesByItself is for those on Redis who decide without a script now: by lease, or because Redis is gone.
func (t *together) takesByItself(ctx context.Context, i int) bool {
	l := t.charges[i].Limiter.(*Redis)
	rs, r := l.current.Load(), t.charges[i].Request
	var res Result
	var err error
	done := false
	if l.leases != nil && r.N > 0 {
		res, done, err = l.leases.take(ctx, rs, r)
	}
	if !done && !l.conn.breaker.ask() {
		done = true
		res, err = l.without(ctx, rs, r, nil)
	}
	if !done {
		return false
	}
	t.results[i] = res
	t.fail(err)
	if res.Granted > 0 {
		t.charged = append(t.charged, i)
	}
	return true
}

// group takes those off rest that one script can decide with the first of them.
func (t *together) group(rest []int) (group, left []int) {
	first := t.charges[rest[0]].Limiter.(*Redis)
	for _, i := range rest {
		l := t.charges[i].Limiter.(*Redis)
		if l.conn == first.conn && (!l.conn.cluster || t.charges[i].Request.Key != "" && t.charges[i].Request.Key == t.charges[rest[0]].Request.Key || i == rest[0]) {
			group = append(group, i)
		} else {
			left = append(left, i)
		}
	}
	return group, left
}

// takeGroup decides about limiters on one Redis by one script.
func (t *together) takeGroup(ctx context.Context, group []int) {
	if len(group) == 1 {
		t.take(ctx, group[0])
		return
	}
	var (
		conn       *Conn
		algorithms = make([]Algorithm, len(group))
		specs      = make([]*redisSpec, len(group))
		asks       = make([]ask, len(group))
		claims     = make([]claim, len(group))
		keys       = make([]string, len(group))
		args       = make([]any, 0, len(group)*argsPerKey)
		sent       int64
	)
	for k, i := range group {
		l, r := t.charges[i].Limiter.(*Redis), t.charges[i].Request
		conn, sent = l.conn, l.clock.now()
		specs[k] = l.current.Load()
		asks[k] = specs[k].p.ask(r)
		algorithms[k] = specs[k].p.spec.Algorithm
		keys[k] = l.key(specs[k], r.Key)
		if slices.Contains(keys[:k], keys[k]) {
			t.results[i] = Result{}
			t.fail(fmt.Errorf("ratelimit: %s is asked twice about one key", l.name))
			return
		}
	}
	for k, i := range group {
		claims[k] = t.charges[i].Limiter.(*Redis).ledger.claim(specs[k], t.charges[i].Request.Key, sent)
		args = specs[k].args(args, asks[k], claims[k].debt)
	}
	reply, err := conn.call(ctx, scriptFor("look", algorithms...), keys, args)
	if err != nil {
		for k, i := range group {
			l := t.charges[i].Limiter.(*Redis)
			l.ledger.failed(t.charges[i].Request.Key, claims[k])
			res, err := l.without(ctx, specs[k], t.charges[i].Request, err)
			t.results[i] = res
			t.fail(err)
			if res.Granted > 0 {
				t.charged = append(t.charged, i)
			}
		}
		return
	}
	all := true
	for k := range group {
		all = all && reply[k*repliesPerKey] >= 0
	}
	for k, i := range group {
		l := t.charges[i].Limiter.(*Redis)
		a := specs[k].decode(reply[k*repliesPerKey : (k+1)*repliesPerKey])
		l.ledger.told(specs[k], t.charges[i].Request.Key, claims[k], a, all)
		if !all {
			would := a.granted
			if a.give > 0 { // it was not kept
				a.left, a.give, a.wait, a.retry = a.left+a.give, 0, 0, 0
			}
			t.results[i] = specs[k].p.result(asks[k], a, SourceRedis)
			t.results[i].Allowed = would
			if !would {
				l.denied.learn(t.charges[i].Request.Key, sent, asks[k], a)
			}
			continue
		}
		l.denied.learn(t.charges[i].Request.Key, sent, asks[k], a)
		t.results[i] = specs[k].p.result(asks[k], a, SourceRedis)
		if a.give > 0 {
			t.charged = append(t.charged, i)
		}
	}
}

func (t *together) fail(err error) {
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

func (t *together) refused() bool {
	return slices.ContainsFunc(t.results, func(r Result) bool { return !r.Allowed })
}

// undo gives back what was charged, also for a caller who has gone.
func (t *together) undo(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	for _, i := range t.charged {
		t.fail(t.charges[i].Limiter.Refund(ctx, t.charges[i].Request.Key, t.results[i]))
		t.results[i].Remaining += t.results[i].Granted
		t.results[i].Granted, t.results[i].Wait = 0, 0
	}
	return false, errors.Join(t.errs...)
}

// Cancel gives back what a TakeAll charged: for a caller who went away while he waited.
func Cancel(ctx context.Context, charges []Charge, results []Result) error {
	var errs []error
	for i, c := range charges {
		if results[i].Granted > 0 {
			errs = append(errs, c.Limiter.Refund(ctx, c.Request.Key, results[i]))
		}
	}
	return errors.Join(errs...)
}
