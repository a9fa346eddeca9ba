// Command topics makes the topics of the system, and the retry topics of its consumer groups, on the brokers behind
// ROCKETMQ_NAMESRV, and waits until the name servers know them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/contract"
)

// A broker's first registration may come 10 s after it listens, and a small machine is slow.
const patience = 60 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "topics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return rocketmq.EnsureTopics(ctx, rocketmq.Config{
		NameServers: strings.Split(os.Getenv("ROCKETMQ_NAMESRV"), ","),
		Prefix:      os.Getenv("ROCKETMQ_PREFIX"),
	}, contract.Topics(), contract.Groups())
}
