package main

import (
	"context"
	"io"
	"log/slog"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/process"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/inventory"
)

// config holds the settings of the process.
type config struct {
	Process process.Settings
	settings.MySQL
	inventory.Config
	// Listener for the other services; never reachable from outside.
	InternalAddr string `env:"INTERNAL_ADDR" envDefault:"127.0.0.1:7083"`
}

// Validate reports the first wrong setting of those that no group checks.
func (c *config) Validate() error {
	if err := settings.CheckListenAddr("INTERNAL_ADDR", c.InternalAddr); err != nil {
		return err
	}
	if err := command.CheckDSN(c.MySQL, c.Process.Production()); err != nil {
		return err
	}
	return c.Config.Check()
}

func load() (config, error) {
	c := config{Process: process.Settings{HTTP: settings.HTTP{Addr: "127.0.0.1:8083", AdminAddr: "127.0.0.1:9083"}}}
	err := settings.Load(&c, nil)
	return c, err
}

func checkConfig() error {
	_, err := load()
	return err
}

// connect checks each back end of the settings.
func connect(ctx context.Context, out io.Writer) error {
	c, err := load()
	if err != nil {
		return err
	}
	all := []process.BackEnd{
		c.Process.DatabaseBackEnd("inventory", c.MySQL, inventory.Migrations), c.Process.GateBackEnd(),
		c.Process.LimitsBackEnd(), c.Process.BrokerBackEnd("inventory"),
		process.ServiceBackEnd("order", "ORDER_INTERNAL_URL", c.OrderURL, "/internal/v1/refunds", c.Secrets),
	}
	return process.Connect(ctx, out, append(all, process.KeysBackEnd(c.Auth)...)...)
}

func serve(ctx context.Context, _ *slog.Logger) error {
	c, err := load()
	if err != nil {
		return err
	}
	p, err := process.Open(ctx, "inventory", c.Process, c)
	if err != nil {
		return err
	}
	db, err := p.Database(c.MySQL)
	if err != nil {
		return err
	}
	rdb, err := p.GateRedis()
	if err != nil {
		return err
	}
	svc, err := inventory.New(c.Config, inventory.Deps{
		DB: db, Redis: rdb, Bus: p.Bus, Telemetry: p.Telemetry, Limits: p.Limits,
	})
	if err != nil {
		return err
	}
	return p.Run(ctx, svc, httpserver.Listen("INTERNAL_ADDR", c.InternalAddr, svc.InternalHandler(), p.Telemetry.Log))
}
