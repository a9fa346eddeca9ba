// Command seckill serves the purchase path of the flash sale.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill"
)

func main() {
	command.Main(command.Spec{
		Name:  "seckill",
		Serve: serve,
		Migrate: func(ctx context.Context, log *slog.Logger, _ bool) error {
			log.InfoContext(ctx, "seckill has no tables: nothing to migrate")
			return nil
		},
		CheckConfig: func() error { _, err := load(); return err },
	})
}

func load() (seckill.Config, error) {
	cfg := seckill.DefaultConfig()
	err := settings.Load(&cfg, nil)
	return cfg, err
}

func serve(ctx context.Context, _ *slog.Logger) (err error) {
	cfg, err := load()
	if err != nil {
		return err
	}
	tel, err := telemetry.Setup(ctx, "seckill", command.Version(), telemetry.Options{
		Production: cfg.Production(), LogLevel: cfg.LogLevel,
	})
	if err != nil {
		return err
	}
	tel.Log.LogAttrs(ctx, slog.LevelInfo, "settings", settings.Describe(cfg)...)

	redis.SetLogger(clientLog{tel.Log})
	stockgate.LogTo(tel.Log)
	rdb := stockgate.Connect(cfg.Addrs, cfg.DB)
	defer func() { _ = rdb.Close() }() // nothing is under way any more
	broker, err := rocketmq.New(rocketmq.Config{NameServers: cfg.NameServers, Prefix: cfg.Prefix}, tel.Log)
	if err != nil {
		return err
	}
	limits, err := admission.New(cfg.Settings, cfg.Redis, tel)
	if err != nil {
		return err
	}
	service, err := seckill.New(cfg, seckill.Deps{Redis: rdb, Bus: broker, Telemetry: tel, Limits: limits})
	if err != nil {
		return err
	}

	parts := []lifecycle.Component{
		tel.Component(),
		{Name: "message bus", Run: func(ctx context.Context) error {
			<-ctx.Done()
			out, cancel := lifecycle.DrainContext(ctx)
			defer cancel()
			out, stop := context.WithTimeout(out, 5*time.Second)
			defer stop()
			return broker.Close(out)
		}},
	}
	parts = append(parts, limits.Components()...)
	parts = append(parts, service.Components()...)
	parts = append(parts,
		httpserver.Admin("ADMIN_ADDR", cfg.AdminAddr, service.Ready, tel.Metrics, cfg.PProf, tel.Log),
		httpserver.Listen("HTTP_ADDR", cfg.HTTP.Addr, service.Handler(), tel.Log),
	)
	return lifecycle.Run(ctx, tel.Log, cfg.DrainTimeout, parts...)
}

// clientLog takes what the Redis client would print. Its callers tell of each failure anyway.
type clientLog struct{ *slog.Logger }

func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.DebugContext(ctx, "redis client", "said", fmt.Sprintf(format, v...))
}
