// Command bench measures the whole system on one machine and prints the figures of docs/benchmarks.md. It uses one load
// generator and verifies at the end that no purchase was lost or sold twice. Run it by `make bench`, which starts the
// system for it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"flashsale.internal/pkg/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	cfg := Config{Secret: settings.DevelopmentAuthSecret, Log: os.Stderr}
	var before System
	cfg.System.flags(flags, "", "of the system")
	before.flags(flags, "before-", "of an earlier one, which is measured in turns")
	flags.StringVar(&cfg.Only, "only", "", "names of the sections, separated by commas; default: those that are not long")
	flags.Float64Var(&cfg.Scale, "scale", 1, "factor of durations and counts")
	flags.IntVar(&cfg.Rounds, "rounds", 1, "repetitions of each section, in which the systems take turns")
	flags.IntVar(&cfg.Orders, "orders", 20_000, "orders of the section due")
	flags.StringVar(&cfg.Picture, "picture", "", "SVG file for the section hour")
	file := flags.String("json", "", "file for the whole report")
	bare := flags.Bool("bare", false, "serve the bare handler only")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *bare {
		return serveBare(ctx, out)
	}
	if before.RunDir != "" {
		cfg.Before = &before
	}
	report, err := measure(ctx, cfg)
	if report.Took == 0 {
		return err
	}
	report.Markdown(out)
	if *file != "" {
		raw, failed := json.MarshalIndent(report, "", " ")
		if failed == nil {
			failed = os.WriteFile(*file, append(raw, '\n'), 0o644)
		}
		err = errors.Join(err, failed)
	}
	return err
}
