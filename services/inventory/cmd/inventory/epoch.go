package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/inventory"
)

// epochCommands returns the commands for a restored database. They need the database only.
func epochCommands() []command.Subcommand {
	return []command.Subcommand{
		{
			Words: []string{"epoch", "new"}, Arguments: "--since <time>", Run: newEpoch,
			Does: "after a restore: import what changed since the backup (RFC 3339)",
		},
		{
			Words: []string{"epoch", "status"}, Run: epochStatus,
			Does: "show the epoch and the progress and counts of its import",
		},
	}
}

// withDatabase runs work on the database of MYSQL_DSN.
func withDatabase(log *slog.Logger, work func(db *gorm.DB) error) (err error) {
	var c struct {
		command.Database
	}
	if err := settings.Load(&c, nil); err != nil {
		return err
	}
	db, err := c.Open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(db)) }()
	return work(db)
}

func newEpoch(ctx context.Context, log *slog.Logger, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("epoch new", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	since := flags.String("since", "", "")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return command.ErrUsage
	}
	at, err := time.Parse(time.RFC3339, *since)
	if err != nil {
		return command.ErrUsage
	}
	return withDatabase(log, func(db *gorm.DB) error { return inventory.NewEpoch(ctx, db, at, out) })
}

func epochStatus(ctx context.Context, log *slog.Logger, args []string, out io.Writer) error {
	if len(args) > 0 {
		return command.ErrUsage
	}
	return withDatabase(log, func(db *gorm.DB) error { return inventory.EpochStatus(ctx, db, out) })
}
