package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	topicQueues = 8
	retryQueues = 1
	// knownTopic exists on every broker from its first start, so its route lists all brokers.
	knownTopic     = "SELF_TEST_TOPIC"
	requestTimeout = 4 * time.Second
)

// retryTopic returns the topic in which the broker keeps messages for redelivery to the group.
func retryTopic(group string) string { return "%RETRY%" + group }

// EnsureTopics creates the topics, and the retry topics of the groups, on every broker that lacks them, and waits until
// the name servers have them. It retries until it is done, a broker denies access, or ctx ends. Existing topics stay as
// they are. A retry topic that does not exist when a group starts is created by the broker, which delays the first
// redelivery.
func EnsureTopics(ctx context.Context, cfg Config, topics, groups []string) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	queues := make(map[string]int, len(topics)+len(groups))
	for _, t := range topics {
		queues[cfg.Prefix+t] = topicQueues
	}
	for _, g := range groups {
		queues[retryTopic(cfg.Prefix+g)] = retryQueues
	}
	conns := newConnections(cfg)
	defer conns.close()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, 5*time.Second
	for {
		missing, err := conns.createMissing(ctx, cfg.NameServers, queues)
		if err == nil && missing == 0 {
			return nil
		}
		if errors.Is(err, ErrDenied) {
			return fmt.Errorf("rocketmq: create topics: the user of ROCKETMQ_ACCESS_KEY needs the right Create on Topic:%[1]s* "+
				"and Group:%[1]s*: %[2]w", cfg.Prefix, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("rocketmq: create topics: %w", errors.Join(ctx.Err(), err))
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// createMissing creates each topic on the brokers that lack it, and returns how many it created.
func (ls *connections) createMissing(ctx context.Context, nameServers []string, queues map[string]int) (
	missing int, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	brokers, err := ls.route(ctx, nameServers, knownTopic)
	if err != nil {
		return 0, fmt.Errorf("list brokers: %w", err)
	}
	for topic, n := range queues {
		found, err := ls.route(ctx, nameServers, topic)
		if err != nil && !errors.Is(err, errNoTopic) {
			return missing, err
		}
		has := make(map[string]bool, len(found))
		for _, s := range found {
			has[s.broker] = true
		}
		for _, b := range brokers {
			if has[b.broker] {
				continue
			}
			missing++
			if err := ls.createTopic(ctx, b.addr, topic, n); err != nil {
				return missing, err
			}
		}
	}
	return missing, nil
}

func (ls *connections) createTopic(ctx context.Context, broker, topic string, queues int) error {
	a, err := ls.request(ctx, broker, requestCreateTopic, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
		"order": "false",
		// readable and writable
		"readQueueNums": strconv.Itoa(queues), "writeQueueNums": strconv.Itoa(queues), "perm": "6",
	}, nil)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	if a.code != responseOK {
		return fmt.Errorf("create topic %s: the broker responded %d: %s", topic, a.code, a.remark)
	}
	return nil
}
