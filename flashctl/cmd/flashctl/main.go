// Command flashctl is the command for operators, merchants and load tests.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"flashsale.internal/flashctl/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
