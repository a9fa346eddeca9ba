package main

import (
	"context"
	"io"
	"log/slog"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/process"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order"
)

// config holds the settings of the process.
type config struct {
	Process process.Settings
	settings.MySQL
	order.Config
	// Listener for the other services; never reachable from outside.
	InternalAddr string `env:"INTERNAL_ADDR" envDefault:"127.0.0.1:7082"`
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
	c := config{Process: process.Settings{HTTP: settings.HTTP{Addr: "127.0.0.1:8082", AdminAddr: "127.0.0.1:9082"}}}
	if err := settings.Load(&c, nil); err != nil {
		return c, err
	}
	if c.Payments.Has(settings.Sandbox) && c.Payments.SandboxCallbackURL == "" {
		url, err := order.CallbackURL(c.Process.HTTP.Addr)
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

// connect checks each back end of the settings.
func connect(ctx context.Context, out io.Writer) error {
	c, err := load()
	if err != nil {
		return err
	}
	all := []process.BackEnd{
		c.Process.DatabaseBackEnd("order", c.MySQL, order.Migrations), c.Process.LimitsBackEnd(),
		c.Process.BrokerBackEnd("order"),
		process.ServiceBackEnd("inventory", "INVENTORY_INTERNAL_URL", c.InventoryURL, contract.ModesPath, c.Secrets),
	}
	return process.Connect(ctx, out, append(all, process.KeysBackEnd(c.Auth)...)...)
}

func serve(ctx context.Context, _ *slog.Logger) error {
	c, err := load()
	if err != nil {
		return err
	}
	p, err := process.Open(ctx, "order", c.Process, c)
	if err != nil {
		return err
	}
	db, err := p.Database(c.MySQL)
	if err != nil {
		return err
	}
	deps := order.Deps{DB: db, Bus: p.Bus, Telemetry: p.Telemetry, Limits: p.Limits}
	svc, err := order.New(c.Config, deps)
	if err != nil {
		return err
	}
	return p.Run(ctx, svc, httpserver.Listen("INTERNAL_ADDR", c.InternalAddr, svc.InternalHandler(), p.Telemetry.Log))
}
