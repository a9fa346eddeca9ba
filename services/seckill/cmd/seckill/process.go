package main

import (
	"context"
	"log/slog"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/redisconn"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill"
)

// config holds the settings of the process.
type config struct {
	settings.App
	settings.HTTP
	settings.Redis
	settings.RocketMQ
	admission.Settings
	seckill.Config
}

// Validate reports the first wrong setting of those that no group checks.
func (c *config) Validate() error { return c.Config.Check() }

func load() (config, error) {
	c := config{HTTP: settings.HTTP{Addr: "127.0.0.1:8081", AdminAddr: "127.0.0.1:9081"}}
	err := settings.Load(&c, nil)
	return c, err
}

func checkConfig() error {
	_, err := load()
	return err
}

func serve(ctx context.Context, _ *slog.Logger) error {
	c, err := load()
	if err != nil {
		return err
	}
	tel, err := telemetry.Setup(ctx, "seckill", command.Version(), telemetry.Options{Production: c.Production(), LogLevel: c.LogLevel})
	if err != nil {
		return err
	}
	settings.LogAtStart(ctx, tel.Log, c)
	broker, err := rocketmq.New(rocketmq.Config{NameServers: c.NameServers, Prefix: c.Prefix}, tel.Log)
	if err != nil {
		return err
	}
	redisconn.LogTo(tel.Log)
	rdb := stockgate.Connect(c.Addrs, c.DB)
	limits, err := admission.New(c.Settings, c.Redis, tel)
	if err != nil {
		return err
	}
	svc, err := seckill.New(c.Config, seckill.Deps{Redis: rdb, Bus: broker, Telemetry: tel, Limits: limits})
	if err != nil {
		return err
	}
	// They end in the reverse order: callers first, then what works in the background, then what all of it needs.
	parts := []lifecycle.Component{
		tel.Component(),
		lifecycle.AtEnd("redis", func(context.Context) error { return rdb.Close() }),
		lifecycle.AtEnd("message bus", broker.Close),
	}
	parts = append(parts, limits.Components()...)
	parts = append(parts, svc.Components()...)
	parts = append(parts,
		httpserver.Admin("ADMIN_ADDR", c.AdminAddr, svc.Ready, tel.Metrics, c.PProf, tel.Log),
		httpserver.Listen("HTTP_ADDR", c.HTTP.Addr, svc.Handler(), tel.Log))
	return lifecycle.Run(ctx, tel.Log, c.DrainTimeout, parts...)
}
