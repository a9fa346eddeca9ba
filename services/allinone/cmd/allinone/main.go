// Command allinone runs the whole system in one process.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/caarlos0/env/v11"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/allinone"
)

func main() {
	command.Main(command.Spec{Name: "allinone", Serve: serve, CheckConfig: checkConfig})
}

func load() (allinone.Config, error) {
	cfg := allinone.Config{App: settings.App{LogLevel: slog.LevelWarn}} // the greeting is printed, not logged
	err := settings.Load(&cfg, nil)
	return cfg, err
}

func checkConfig() error {
	cfg, err := load()
	if err != nil {
		return err
	}
	return allinone.Check(cfg, env.ToMap(os.Environ()))
}

func serve(ctx context.Context, _ *slog.Logger) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	return allinone.Run(ctx, cfg, env.ToMap(os.Environ()), os.Stdout, os.Stderr)
}
