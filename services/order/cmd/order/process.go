package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
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
	settings.RocketMQ
	order.Config
	InternalAddr string `env:"INTERNAL_ADDR" envDefault:":7082"` // never reachable from outside
}

// Validate reports the first wrong setting of those that no group checks.
func (c *config) Validate() error {
	if err := settings.CheckListenAddr("INTERNAL_ADDR", c.InternalAddr); err != nil {
		return err
	}
	return c.Config.Check()
}

func load() (config, error) {
	c := config{HTTP: settings.HTTP{Addr: ":8082", AdminAddr: "127.0.0.1:9082"}}
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

func migrate(ctx context.Context, log *slog.Logger, up bool) error {
	var c struct {
		settings.App
		settings.MySQL
	}
	if err := settings.Load(&c, nil); err != nil {
		return err
	}
	db, err := sqldb.Open(c.MySQL.DSN, sqldb.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = sqldb.Close(db) }()
	if up {
		return sqldb.Migrate(ctx, db, order.Migrations, log)
	}
	list, err := sqldb.Status(ctx, db, order.Migrations)
	if err != nil {
		return err
	}
	for _, m := range list {
		state := "pending"
		if !m.AppliedAt.IsZero() {
			state = "applied " + m.AppliedAt.UTC().Format(time.RFC3339)
		}
		fmt.Printf("%05d  %-32s  %s\n", m.Version, m.Name, state)
	}
	return nil
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
	tel.Log.LogAttrs(ctx, slog.LevelInfo, "settings", settings.Describe(c)...)
	db, err := sqldb.Open(c.MySQL.DSN, sqldb.Options{Log: tel.Log})
	if err != nil {
		return err
	}
	broker, err := rocketmq.New(rocketmq.Config{NameServers: c.NameServers, Prefix: c.Prefix}, tel.Log)
	if err != nil {
		return err
	}
	svc, err := order.New(c.Config, order.Deps{DB: db, Bus: broker, Telemetry: tel})
	if err != nil {
		return err
	}
	// They end in the reverse order: callers first, then what works in the background, then what all of it needs.
	parts := []lifecycle.Component{tel.Component(), closeDatabase(db), closeBus(broker)}
	parts = append(parts, svc.Components()...)
	parts = append(parts,
		httpserver.Admin("ADMIN_ADDR", c.AdminAddr, svc.Ready, tel.Metrics, c.PProf, tel.Log),
		httpserver.Listen("INTERNAL_ADDR", c.InternalAddr, svc.InternalHandler(), tel.Log),
		httpserver.Listen("HTTP_ADDR", c.HTTP.Addr, svc.Handler(), tel.Log))
	return lifecycle.Run(ctx, tel.Log, c.DrainTimeout, parts...)
}

func closeDatabase(db *gorm.DB) lifecycle.Component {
	return lifecycle.Component{Name: "database", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return sqldb.Close(db)
	}}
}

func closeBus(b *rocketmq.Bus) lifecycle.Component {
	return lifecycle.Component{Name: "message bus", Run: func(ctx context.Context) error {
		<-ctx.Done()
		out, cancel := lifecycle.DrainContext(ctx)
		defer cancel()
		return b.Close(out)
	}}
}
