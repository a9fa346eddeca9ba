// Command seckill runs the seckill service.
package main

import (
	"context"
	"log/slog"

	"flashsale.internal/pkg/command"
)

func main() {
	command.Main(command.Spec{
		Name: "seckill", Serve: serve, CheckConfig: checkConfig, Connect: connect,
		More: []command.Subcommand{edgeCommand()},
		Migrate: func(ctx context.Context, log *slog.Logger, _ command.Migration) error {
			log.InfoContext(ctx, "seckill has no tables: nothing to migrate")
			return nil
		},
	})
}
