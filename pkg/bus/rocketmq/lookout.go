package rocketmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	lookEvery    = time.Second            // at a consumer that works
	waitEvery    = 250 * time.Millisecond // for RocketMQ to come back
	missesToLose = 2                      // looks in a row in which no broker knows the consumer
)

// lookout watches from outside what one consumer object depends on: routes and brokers. It is for one goroutine.
type lookout struct {
	nameServers  []string
	topic, group string // as the broker knows them
	links        links
}

// view is what a look showed. A consumer object serves the view it was built in.
type view struct {
	topic, retry []share
	alive        []string // addresses of the brokers that answer
}

func sortShares(s []share) {
	slices.SortFunc(s, func(a, b share) int { return cmp.Compare(a.broker, b.broker) })
}

// ready waits until the topic has a route and a broker of it answers. The error is ctx's.
func (l *lookout) ready(ctx context.Context) (view, error) {
	for {
		v, _, err := l.look(ctx, nil)
		if err == nil && len(v.alive) > 0 {
			return v, nil
		}
		if err := pause(ctx, waitEvery); err != nil {
			return view{}, err
		}
	}
}

// watch returns why the consumer object of that instance has to be replaced, or ctx's error.
func (l *lookout) watch(ctx context.Context, built view, instance string) error {
	misses := 0
	for {
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
		v, consumers, err := l.look(ctx, &built)
		switch {
		case err != nil:
			return err
		case !slices.Equal(v.alive, built.alive):
			return fmt.Errorf("the brokers that answer were %v and are %v", built.alive, v.alive)
		case !slices.Equal(v.topic, built.topic) || !slices.Equal(v.retry, built.retry):
			return fmt.Errorf("the route changed from %v, %v to %v, %v", built.topic, built.retry, v.topic, v.retry)
		case slices.ContainsFunc(consumers, func(id string) bool { return isInstance(id, instance) }):
			misses = 0
		default:
			if misses++; misses == missesToLose {
				return errors.New("no broker knows the consumer")
			}
		}
	}
}

// look returns the present view, and the ids of the group's consumers. The routes of last stand in while the name
// servers do not tell: a consumer goes on without them.
func (l *lookout) look(ctx context.Context, last *view) (v view, consumers []string, err error) {
	err = l.routes(ctx, &v)
	if err != nil {
		if last == nil || ctx.Err() != nil {
			return view{}, nil, err
		}
		v.topic, v.retry = last.topic, last.retry
	}
	for _, s := range slices.Concat(v.topic, v.retry) {
		if slices.Contains(v.alive, s.addr) {
			continue
		}
		if ids, err := l.consumers(ctx, s.addr); err == nil {
			v.alive = append(v.alive, s.addr)
			consumers = append(consumers, ids...)
		}
	}
	return v, consumers, ctx.Err()
}

func (l *lookout) routes(ctx context.Context, v *view) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if v.topic, err = l.links.route(ctx, l.nameServers, l.topic); err != nil {
		return err
	}
	v.retry, err = l.links.route(ctx, l.nameServers, retryTopic(l.group))
	if errors.Is(err, errNoTopic) { // the broker makes it when the group first comes
		return nil
	}
	return err
}

func (l *lookout) consumers(ctx context.Context, broker string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return l.links.consumers(ctx, broker, l.group)
}

// pause waits about d, a quarter more or less.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d*3/4 + rand.N(d/2)): //nolint:gosec // chance against stampedes, not against guessing
		return nil
	}
}
