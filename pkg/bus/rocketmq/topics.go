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
	// knownTopic is on every broker from its first start, so its route lists them all.
	knownTopic = "SELF_TEST_TOPIC"
	askTimeout = 4 * time.Second
)

// retryTopic is where the broker puts what the group has to get again.
func retryTopic(group string) string { return "%RETRY%" + group }

// EnsureTopics makes the topics, and the groups' retry topics, on every broker that does not have them, and waits until
// the name servers know them. It keeps trying until it is done or ctx ends. Existing ones stay as they are. A retry topic
// that the broker has to make itself, at a group's first start, delays the first redelivery.
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
	conns := make(links)
	defer conns.close()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, 5*time.Second
	for {
		missing, err := conns.createMissing(ctx, cfg.NameServers, queues)
		if err == nil && missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("rocketmq: make topics: %w", errors.Join(ctx.Err(), err))
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// createMissing has each topic that a broker's share is missing of made there. It returns how many that were.
func (ls links) createMissing(ctx context.Context, nameServers []string, queues map[string]int) (missing int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	brokers, err := ls.route(ctx, nameServers, knownTopic)
	if err != nil {
		return 0, fmt.Errorf("find the brokers: %w", err)
	}
	for topic, n := range queues {
		shares, err := ls.route(ctx, nameServers, topic)
		if err != nil && !errors.Is(err, errNoTopic) {
			return missing, err
		}
		has := make(map[string]bool, len(shares))
		for _, s := range shares {
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

func (ls links) createTopic(ctx context.Context, broker, topic string, queues int) error {
	a, err := ls.ask(ctx, broker, askCreateTopic, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
		"readQueueNums": strconv.Itoa(queues), "writeQueueNums": strconv.Itoa(queues), "perm": "6", // readable and writable
	})
	if err != nil {
		return fmt.Errorf("make topic %s: %w", topic, err)
	}
	if a.code != answerOK {
		return fmt.Errorf("make topic %s: the broker answers %d: %s", topic, a.code, a.remark)
	}
	return nil
}
