package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/edgecounts"
)

// edgeSettings are those of the process beside nginx, which is of this image but no seckill.
type edgeSettings struct {
	App       settings.App
	AdminAddr string `env:"ADMIN_ADDR"`
}

const edgeDrain = 5 * time.Second

// edgeCommand counts the responses that nginx reports.
func edgeCommand() command.Subcommand {
	return command.Subcommand{
		Words: []string{"edge-counts"}, Arguments: "<address>", Does: "counts for Prometheus the responses that nginx reports there, by UDP",
		Run: func(ctx context.Context, _ *slog.Logger, args []string, _ io.Writer) error {
			if len(args) != 1 {
				return command.ErrUsage
			}
			s := edgeSettings{AdminAddr: "127.0.0.1:9080"}
			if err := settings.Load(&s, nil); err != nil {
				return err
			}
			tel, err := telemetry.Setup(ctx, "edge", command.Version(), telemetry.Options{Production: s.App.Production()})
			if err != nil {
				return err
			}
			counts, err := edgecounts.New(tel)
			if err != nil {
				return fmt.Errorf("metrics: %w", err)
			}
			return lifecycle.Run(ctx, tel.Log, edgeDrain, tel.Component(),
				httpserver.Admin("ADMIN_ADDR", s.AdminAddr, nil, tel.Metrics, false, tel.Log),
				lifecycle.Component{Name: "counts of the edge", Run: func(ctx context.Context) error { return counts.Listen(ctx, args[0], tel.Log) }})
		},
	}
}
