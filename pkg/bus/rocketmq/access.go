package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale.internal/pkg/lifecycle"
)

// ErrDenied means that a broker refused the user, the signature or a right of the user: response code 16. An operator
// has to correct that; no retry does. Nothing was stored.
var ErrDenied = errors.New("permission denied")

// deniedInterval is the interval of the requests that find out whether a denial has ended. It is below the time for
// which lifecycle.Access reports one.
const deniedInterval = 5 * time.Second

const (
	noQueue   = "1000000" // the id of a queue that no topic has
	permWrite = 2         // bit of the permission of queues that take messages
)

// sendError adds ErrDenied to an error of the client library if it has the code.
func sendError(err error) error {
	if err != nil && strings.HasPrefix(err.Error(), "CODE: 16, ") {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return err
}

// mayConsume fails with ErrDenied if the group may not consume the topic from the broker. A consumer without that right
// starts without an error and receives nothing.
func (ls *connections) mayConsume(ctx context.Context, addr, topic, group string) error {
	_, err := ls.request(ctx, addr, requestOffset,
		map[string]string{"consumerGroup": group, "topic": topic, "queueId": "0"}, nil)
	return err
}

// mayPublish fails with ErrDenied if a broker of the topic does not let this process publish. It sends a message to a
// queue that no topic has: a broker checks the rights first, and then refuses the message.
func (ls *connections) mayPublish(ctx context.Context, cfg Config, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	brokers, err := ls.route(ctx, cfg.NameServers, topic)
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	for _, b := range brokers {
		if b.perm&permWrite == 0 {
			continue
		}
		_, err := ls.request(ctx, b.addr, requestSend, map[string]string{
			"producerGroup": cfg.Prefix + publishers, "topic": topic, "queueId": noQueue,
			"defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "sysFlag": "0", "flag": "0", "properties": "",
			"bornTimestamp": "0", "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
		}, []byte("-"))
		if err != nil {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
	}
	return nil
}

// checkPublishing finds out whether this process may publish to the topics of Config.Publishes. It returns once it may,
// or when ctx ends.
func (b *Bus) checkPublishing(ctx context.Context) {
	conns := newConnections(b.cfg)
	defer conns.close()
	var failures lifecycle.Failures
	for {
		var err error
		for _, topic := range b.cfg.Publishes {
			if err = conns.mayPublish(ctx, b.cfg, b.cfg.Prefix+topic); err != nil {
				break
			}
		}
		if ctx.Err() != nil {
			return
		}
		failures.Observe(ctx, b.log, "check of the rights to publish", err)
		if err == nil {
			b.access.Served()
			return
		}
		if errors.Is(err, ErrDenied) {
			b.access.Denied(ctx, err)
		}
		if pause(ctx, deniedInterval) != nil {
			return
		}
	}
}
