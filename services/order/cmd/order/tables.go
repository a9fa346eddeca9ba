package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order"
)

// tableCommands returns the commands for the tables that hold orders. They run beside the service.
func tableCommands() []command.Subcommand {
	return []command.Subcommand{{
		Words: []string{"migrate", "tables"}, Arguments: "<number> | --drop-old", Run: changeTables,
		Does: "move all orders into this number of tables, or drop the tables that a move has left",
	}}
}

func changeTables(ctx context.Context, log *slog.Logger, args []string, out io.Writer) (err error) {
	if len(args) != 1 {
		return command.ErrUsage
	}
	dropOld := args[0] == "--drop-old"
	n, wrong := strconv.Atoi(args[0])
	if wrong != nil && !dropOld {
		return command.ErrUsage
	}
	d, err := loadDatabases()
	if err != nil {
		return err
	}
	db, err := sqldb.Open(d.DSN, sqldb.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(db)) }()
	if dropOld {
		return order.DropOldTables(ctx, db, log, out)
	}
	return order.MoveTables(ctx, db, n, log, out)
}
