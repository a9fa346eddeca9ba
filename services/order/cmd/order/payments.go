package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"time"

	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/order"
)

// paymentCommands returns the commands for payments. They run beside the service.
func paymentCommands() []command.Subcommand {
	return []command.Subcommand{{
		Words: []string{"payments", "reconcile"}, Arguments: "--since <RFC 3339 time> [--keep-missing]",
		Run:  reconcilePayments,
		Does: "record charges and refunds of the providers that the database lacks",
	}}
}

func reconcilePayments(ctx context.Context, log *slog.Logger, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("payments reconcile", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	from := flags.String("since", "", "")
	keep := flags.Bool("keep-missing", false, "")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return command.ErrUsage
	}
	since, err := time.Parse(time.RFC3339, *from)
	if err != nil {
		return command.ErrUsage
	}
	var c struct {
		command.Database
		order.Payments
	}
	if err := settings.Load(&c, nil); err != nil {
		return err
	}
	if len(c.Providers) == 0 {
		return settings.Wrong("PAYMENT_PROVIDERS", "is not set, so there is no payment provider")
	}
	tel, err := telemetry.Setup(ctx, "order", command.Version(),
		telemetry.Options{Production: c.Production(), LogLevel: c.LogLevel})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	db, err := c.Open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(db)) }()
	return order.ReconcilePayments(ctx, c.Payments, order.Deps{DB: db, Telemetry: tel}, since.UTC(), *keep, out)
}
