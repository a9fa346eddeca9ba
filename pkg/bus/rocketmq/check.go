package rocketmq

import (
	"context"
	"fmt"
)

// Check reports why a process cannot use RocketMQ: a name server that does not respond, a missing topic, a broker that
// does not respond, or a right that its user lacks (ErrDenied) to publish to cfg.Publishes or to consume. consumes
// holds topics by consumer group.
func Check(ctx context.Context, cfg Config, consumes map[string]string) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	conns := newConnections(cfg)
	defer conns.close()
	for _, addr := range cfg.NameServers {
		if _, err := conns.route(ctx, []string{addr}, knownTopic); err != nil {
			return fmt.Errorf("list brokers: %w", err)
		}
	}
	for _, topic := range cfg.Publishes {
		if err := conns.mayPublish(ctx, cfg, cfg.Prefix+topic); err != nil {
			return err
		}
	}
	for group, topic := range consumes {
		brokers, err := conns.route(ctx, cfg.NameServers, cfg.Prefix+topic)
		if err != nil {
			return fmt.Errorf("topic %s: %w", cfg.Prefix+topic, err)
		}
		for _, b := range brokers {
			if err := conns.mayConsume(ctx, b.addr, cfg.Prefix+topic, cfg.Prefix+group); err != nil {
				return fmt.Errorf("consume %s: %w", cfg.Prefix+topic, err)
			}
		}
	}
	return nil
}
