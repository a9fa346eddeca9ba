package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"flashsale.internal/pkg/bus/rocketmq"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory"
)

// config is what the process is set up by.
type config struct {
	settings.App
	settings.HTTP
	settings.MySQL
	settings.Redis
	settings.RocketMQ
	inventory.Config
}

// Validate reports the first wrong setting of those that no group checks.
func (c *config) Validate() error { return c.Config.Check() }

func load() (config, error) {
	c := config{HTTP: settings.HTTP{Addr: ":8083", AdminAddr: "127.0.0.1:9083"}}
	return c, settings.Load(&c, nil)
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
		return sqldb.Migrate(ctx, db, inventory.Migrations, log)
	}
	list, err := sqldb.Status(ctx, db, inventory.Migrations)
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
	tel, err := telemetry.Setup(ctx, "inventory", command.Version(), telemetry.Options{Production: c.Production(), LogLevel: c.LogLevel})
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
	rdb := stockgate.Connect(c.Addrs, c.DB)
	svc, err := inventory.New(c.Config, inventory.Deps{DB: db, Redis: rdb, Bus: broker, Telemetry: tel})
	if err != nil {
		return err
	}
	// They end in the reverse order: callers first, then what works in the background, then what all of it needs.
	parts := []lifecycle.Component{tel.Component(), closeDatabase(db), closeRedis(rdb), closeBus(broker)}
	parts = append(parts, svc.Components()...)
	parts = append(parts,
		httpserver.Admin("ADMIN_ADDR", c.AdminAddr, svc.Ready, tel.Metrics, c.PProf, tel.Log),
		httpserver.Listen("HTTP_ADDR", c.HTTP.Addr, svc.Handler(), tel.Log))
	return lifecycle.Run(ctx, tel.Log, c.DrainTimeout, parts...)
}

func closeDatabase(db *gorm.DB) lifecycle.Component {
	return lifecycle.Component{Name: "database", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return sqldb.Close(db)
	}}
}

func closeRedis(rdb redis.UniversalClient) lifecycle.Component {
	return lifecycle.Component{Name: "redis", Run: func(ctx context.Context) error {
		<-ctx.Done()
		return rdb.Close()
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
