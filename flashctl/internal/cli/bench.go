package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/internal/bench"
	"flashsale.internal/pkg/settings"
)

type bareCmd struct{}

// Run serves until the process is stopped.
func (bareCmd) Run(e env) error { return bench.ServeBare(e.ctx, e.out) }

type benchCmd struct {
	RunDir       string        `required:"" help:"Folder with the pid files of dependencies and services."`
	OrderAdmin   string        `default:"http://127.0.0.1:9082" help:"Admin listener of the order service."`
	OrderDSN     string        `required:"" env:"ORDER_DSN" name:"order-dsn" help:"Database of order."`
	InventoryDB  string        `required:"" env:"INVENTORY_DSN" name:"inventory-dsn" help:"Database of inventory."`
	OrderInserts string        `required:"" env:"ORDER_INSERTS" type:"existingfile" help:"The program orderinserts."`
	Connections  int           `default:"256" help:"Connections of the load generator."`
	Burst        int           `default:"20000" help:"Purchases of one burst."`
	Steady       time.Duration `default:"15s" help:"Duration of the steady sale."`
	Slice        time.Duration `default:"3s" help:"Duration of each other measurement."`
	Rounds       int           `default:"5" help:"Repetitions; refusals and polls take rounds*slice in all."`
	Closing      int           `default:"20000" help:"Orders due at once."`
	Phase        bench.Phase   `enum:"installed,priorities" default:"priorities" help:"How the processes are scheduled."`
	Only         string        `default:"" help:"One section of the phase."`
	Scale        float64       `default:"1" help:"Factor of durations and counts of the sections as installed."`
	Edge         string        `help:"Address of the edge, host:port; without it nothing is measured through the edge."`
	Redis        string        `default:"127.0.0.1:16379" help:"Address of the Redis of the gates, host:port."`
	JSON         string        `name:"json" help:"File for the whole report."`
	Turns        int           `default:"1" help:"Repetitions of each section."`
	Before       beforeFlags   `embed:"" prefix:"before-"`
	Picture      string        `help:"SVG file for the picture of the section hour."`
}

// beforeFlags names the system that is measured in turns with the present one, "before" in its report.
type beforeFlags struct {
	RunDir      string `help:"Folder with the pid files of a second system, which is measured in turns; default: none."`
	Seckill     string `help:"Its seckill, http://host:port."`
	Order       string `help:"Its order."`
	Inventory   string `help:"Its inventory."`
	OrderAdmin  string `help:"Its admin listener of order."`
	Redis       string `help:"Its Redis, host:port."`
	OrderDSN    string `name:"order-dsn" help:"Its database of order."`
	InventoryDB string `name:"inventory-dsn" help:"Its database of inventory."`
}

// system returns nil if there is none.
func (f beforeFlags) system() *bench.System {
	if f.RunDir == "" {
		return nil
	}
	return &bench.System{
		Origins:    client.Origins{Seckill: f.Seckill, Order: f.Order, Inventory: f.Inventory},
		OrderAdmin: f.OrderAdmin, Redis: f.Redis, OrderDSN: f.OrderDSN, InventoryDB: f.InventoryDB, RunDir: f.RunDir,
	}
}

// Run prints progress to standard error and the tables to standard output.
func (c *benchCmd) Run(e env) error {
	origins, err := client.Discover(e.ctx)
	if err != nil {
		return err
	}
	signing, err := loadSigning()
	if err != nil {
		return err
	}
	report, err := bench.Run(e.ctx, bench.Config{
		System: bench.System{
			Origins: origins, Edge: c.Edge, Redis: c.Redis, OrderAdmin: c.OrderAdmin,
			OrderDSN: c.OrderDSN, InventoryDB: c.InventoryDB, RunDir: c.RunDir,
		},
		Before: c.Before.system(), Turns: c.Turns,
		OrderInserts: c.OrderInserts,
		Secret:       signing.secretOr(settings.DevelopmentAuthSecret),
		Connections:  c.Connections, Burst: c.Burst, Steady: c.Steady, Slice: c.Slice, Rounds: c.Rounds,
		Closing: c.Closing, Phase: c.Phase, Only: c.Only,
		Scale: c.Scale, Log: e.errs,
	})
	if report.Took == 0 {
		return err
	}
	report.Markdown(e.out)
	if c.JSON != "" {
		raw, jerr := json.MarshalIndent(report, "", " ")
		if jerr == nil {
			jerr = os.WriteFile(c.JSON, append(raw, '\n'), 0o644) //nolint:gosec // the report holds no secrets
		}
		if jerr != nil {
			err = errors.Join(err, fmt.Errorf("report: %w", jerr))
		}
	}
	return errors.Join(err, c.draw(&report))
}

// draw writes the picture of the section hour, if it ran and the picture has a file.
func (c *benchCmd) draw(report *bench.Report) error {
	if c.Picture == "" {
		return nil
	}
	var svg bytes.Buffer
	drawn, err := report.HourPicture(&svg)
	if err != nil || !drawn {
		return err
	}
	if err := os.WriteFile(c.Picture, svg.Bytes(), 0o644); err != nil { //nolint:gosec // part of the documentation
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}
