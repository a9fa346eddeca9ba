// Command topics creates the topics of the system and the retry topics of its consumer groups on the brokers of
// ROCKETMQ_NAMESRV. It waits until the name servers list them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

// timeout allows for a broker that registers 10 s after it listens, on a slow machine.
const timeout = 60 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "topics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var s struct{ settings.RocketMQ }
	if err := settings.Load(&s, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return rocketmq.EnsureTopics(ctx, rocketmq.Config{
		NameServers: s.NameServers, Prefix: s.Prefix, AccessKey: s.AccessKey, SecretKey: s.SecretKey.AtStart(),
	}, contract.Topics(), contract.Groups())
}
