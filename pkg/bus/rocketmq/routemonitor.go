package rocketmq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"flashsale.internal/pkg/lifecycle"
)

const (
	checkInterval = time.Second            // between checks of a working consumer
	readyInterval = 250 * time.Millisecond // between checks while no broker is reachable
	maxMisses     = 2                      // consecutive checks in which no broker lists the consumer
)

// routeMonitor checks the routes and brokers that one consumer object depends on, over connections of its own. It is
// used by one goroutine.
type routeMonitor struct {
	nameServers  []string
	topic, group string // names in the broker
	connections  *connections
	access       *lifecycle.Access
	log          *slog.Logger
}

// view is the result of a check. A consumer object is replaced when the view differs from that at its creation.
type view struct {
	topic, retry []brokerQueues
	alive        []string      // addresses of the brokers that respond
	over         []*connection // the connections over which they do
	denied       error         // ErrDenied of a broker, which is not among those that respond
}

func sortByBroker(s []brokerQueues) {
	slices.SortFunc(s, func(a, b brokerQueues) int { return cmp.Compare(a.broker, b.broker) })
}

// ready waits until the topic has a route and one of its brokers responds. It fails only when ctx ends.
func (m *routeMonitor) ready(ctx context.Context) (view, error) {
	var failures lifecycle.Failures
	for {
		v, _, err := m.check(ctx, nil)
		interval := readyInterval
		switch {
		case err != nil || len(v.alive) > 0:
		case v.denied != nil:
			err, interval = v.denied, deniedInterval
		default:
			err = errors.New("no broker responds")
		}
		if ctx.Err() == nil {
			failures.Observe(ctx, m.log, "contact with RocketMQ", err)
		}
		if err == nil {
			return v, nil
		}
		if err := pause(ctx, interval); err != nil {
			return view{}, err
		}
	}
}

// watch checks until the consumer object of that instance has to be replaced, and returns the reason, or the error of
// ctx.
func (m *routeMonitor) watch(ctx context.Context, built view, instance string) error {
	misses := 0
	for {
		if err := pause(ctx, checkInterval); err != nil {
			return err
		}
		v, consumers, err := m.check(ctx, &built)
		switch {
		case err != nil:
			return err
		case !slices.Equal(v.alive, built.alive):
			return fmt.Errorf("the reachable brokers changed from %v to %v", built.alive, v.alive)
		case !slices.Equal(v.over, built.over):
			// The broker may have restarted between two checks. The consumer's requests would then wait for
			// responses of the old process until their time-out, 30 s.
			return errors.New("a connection to a broker was lost")
		case !slices.Equal(v.topic, built.topic) || !slices.Equal(v.retry, built.retry):
			return fmt.Errorf("the route changed from %v, %v to %v, %v", built.topic, built.retry, v.topic, v.retry)
		case slices.ContainsFunc(consumers, func(id string) bool { return isInstance(id, instance) }):
			misses = 0
		default:
			if misses++; misses == maxMisses {
				return errors.New("no broker lists the consumer")
			}
		}
	}
}

// check returns the present view, and the ids of the group's consumers. While the name servers do not respond, the
// routes of last are used instead, because a consumer works without name servers. A broker that denies access, as one
// that lacks the user, counts as one that does not respond: the others still work.
func (m *routeMonitor) check(ctx context.Context, last *view) (v view, consumers []string, err error) {
	err = m.routes(ctx, &v)
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
		ids, err := m.consumers(ctx, s.addr)
		switch {
		case err == nil:
			v.alive = append(v.alive, s.addr)
			v.over = append(v.over, m.connections.open[s.addr])
			consumers = append(consumers, ids...)
		case errors.Is(err, ErrDenied):
			v.denied = err
			m.access.Denied(ctx, err)
		}
	}
	if v.denied == nil && len(v.alive) > 0 {
		m.access.Served()
	}
	return v, consumers, ctx.Err()
}

func (m *routeMonitor) routes(ctx context.Context, v *view) (err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if v.topic, err = m.connections.route(ctx, m.nameServers, m.topic); err != nil {
		return err
	}
	v.retry, err = m.connections.route(ctx, m.nameServers, retryTopic(m.group))
	if errors.Is(err, errNoTopic) { // the broker creates it when the group first subscribes
		return nil
	}
	return err
}

func (m *routeMonitor) consumers(ctx context.Context, broker string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := m.connections.mayConsume(ctx, broker, m.topic, m.group); err != nil {
		return nil, fmt.Errorf("consume %s: %w", m.topic, err)
	}
	return m.connections.consumers(ctx, broker, m.group)
}

// pause waits for d ± 25 %.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d*3/4 + rand.N(d/2)): //nolint:gosec // jitter against stampedes, not a secret
		return nil
	}
}
