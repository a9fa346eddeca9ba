package main

import (
	"context"
	"io"
	"log/slog"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/process"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/seckill"
)

// config holds the settings of the process.
type config struct {
	Process process.Settings
	seckill.Config
}

// Validate reports the first wrong setting of those that no group checks.
func (c *config) Validate() error { return c.Config.Check() }

func load() (config, error) {
	c := config{Process: process.Settings{HTTP: settings.HTTP{Addr: "127.0.0.1:8081", AdminAddr: "127.0.0.1:9081"}}}
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
		c.Process.GateBackEnd(), c.Process.LimitsBackEnd(), c.Process.BrokerBackEnd("seckill"),
		process.ServiceBackEnd("inventory", "INVENTORY_INTERNAL_URL", c.InventoryURL, contract.ModesPath, c.Secrets),
	}
	all = append(all, process.KeysBackEnd(c.Auth)...)
	if c.OIDC.On() {
		all = append(all, process.HTTPBackEnd("identity provider", "OIDC_ISSUER", c.OIDC.Issuer, c.OIDC.Check))
	}
	return process.Connect(ctx, out, all...)
}

func serve(ctx context.Context, _ *slog.Logger) error {
	c, err := load()
	if err != nil {
		return err
	}
	p, err := process.Open(ctx, "seckill", c.Process, c)
	if err != nil {
		return err
	}
	rdb, err := p.GateRedis()
	if err != nil {
		return err
	}
	svc, err := seckill.New(c.Config, seckill.Deps{
		Redis: rdb, Bus: p.Bus, Telemetry: p.Telemetry, Limits: p.Limits,
	})
	if err != nil {
		return err
	}
	return p.Run(ctx, svc)
}
