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
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
)

// config is what the process is set up by.
type config struct {
	settings.App
	settings.HTTP
	settings.MySQL
	settings.Redis // of the limits only
	settings.RocketMQ
	admission.Settings
	order.Config
	InternalAddr string `env:"INTERNAL_ADDR" envDefault:"127.0.0.1:7082"` // never reachable from outside
}

// Validate reports the first wrong setting of those that no group checks.
func (c *config) Validate() error {
	if err := settings.CheckListenAddr("INTERNAL_ADDR", c.InternalAddr); err != nil {
		return err
	}
	if err := command.CheckDSN(c.MySQL); err != nil {
		return err
	}
	return c.Config.Check()
}

func load() (config, error) {
	c := config{HTTP: settings.HTTP{Addr: "127.0.0.1:8082", AdminAddr: "127.0.0.1:9082"}}
	if err := settings.Load(&c, nil); err != nil {
		return c, err
	}
	if c.Payments.Sandbox && c.Payments.SandboxCallbackURL == "" {
		url, err := order.CallbackURL(c.HTTP.Addr)
		if err != nil {
			return c, err
		}
		c.Payments.SandboxCallbackURL = url
	}
	return c, nil
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
	tel, err := telemetry.Setup(ctx, "order", command.Version(), telemetry.Options{Production: c.Production(), LogLevel: c.LogLevel})
	if err != nil {
		return err
	}
	settings.LogAtStart(ctx, tel.Log, c)
	db, err := sqldb.Open(c.MySQL.DSN, sqldb.Options{Log: tel.Log})
	if err != nil {
		return err
	}
	broker, err := rocketmq.New(rocketmq.Config{NameServers: c.NameServers, Prefix: c.Prefix}, tel.Log)
	if err != nil {
		return err
	}
	redisconn.LogTo(tel.Log)
	limits, err := admission.New(c.Settings, c.Redis, tel)
	if err != nil {
		return err
	}
	svc, err := order.New(c.Config, order.Deps{DB: db, Bus: broker, Telemetry: tel, Limits: limits})
	if err != nil {
		return err
	}
	// They end in the reverse order: callers first, then what works in the background, then what all of it needs.
	parts := []lifecycle.Component{
		tel.Component(),
		lifecycle.AtEnd("database", func(context.Context) error { return sqldb.Close(db) }),
		lifecycle.AtEnd("message bus", broker.Close),
	}
	parts = append(parts, limits.Components()...)
	parts = append(parts, svc.Components()...)
	parts = append(parts,
		httpserver.Admin("ADMIN_ADDR", c.AdminAddr, svc.Ready, tel.Metrics, c.PProf, tel.Log),
		httpserver.Listen("INTERNAL_ADDR", c.InternalAddr, svc.InternalHandler(), tel.Log),
		httpserver.Listen("HTTP_ADDR", c.HTTP.Addr, svc.Handler(), tel.Log))
	return lifecycle.Run(ctx, tel.Log, c.DrainTimeout, parts...)
}
