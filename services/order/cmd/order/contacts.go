package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/command"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order"
)

// contactCommands returns the commands for stored contacts. They run beside the service.
func contactCommands() []command.Subcommand {
	return []command.Subcommand{
		{
			Words: []string{"contacts", "reencrypt"}, Run: reencryptContacts,
			Does: "encrypt all contacts with the first of CONTACT_KEYS",
		},
		{
			Words: []string{"contacts", "forget"}, Arguments: "--user <id> | --claim <text>", Run: forgetContacts,
			Does: "delete all contacts of a user, by the id or by the user claim of the tokens",
		},
	}
}

// withContacts runs work on the contacts of the database of MYSQL_DSN, with CONTACT_KEYS.
func withContacts(log *slog.Logger, work func(order.StoredContacts) error) (err error) {
	var c struct {
		command.Database
		order.Contacts
	}
	if err := settings.Load(&c, nil); err != nil {
		return err
	}
	db, err := c.Open(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sqldb.Close(db)) }()
	contacts, err := order.OpenContacts(db, c.Contacts)
	if err != nil {
		return err
	}
	return work(contacts)
}

func reencryptContacts(ctx context.Context, log *slog.Logger, args []string, out io.Writer) error {
	if len(args) > 0 {
		return command.ErrUsage
	}
	return withContacts(log, func(contacts order.StoredContacts) error { return contacts.Reencrypt(ctx, out) })
}

func forgetContacts(ctx context.Context, log *slog.Logger, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("contacts forget", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	user := flags.String("user", "", "")
	claim := flags.String("claim", "", "")
	if flags.Parse(args) != nil || flags.NArg() > 0 || (*user == "") == (*claim == "") {
		return command.ErrUsage
	}
	if *claim != "" {
		*user = auth.UserID(*claim)
	}
	if !contract.ValidUserID(*user) {
		return command.ErrUsage
	}
	return withContacts(log, func(contacts order.StoredContacts) error {
		n, err := contacts.ForgetContacts(ctx, *user)
		if err == nil && n == 0 {
			fmt.Fprintf(out, "user %s has no contacts: nothing was deleted\n", *user)
			return nil
		}
		fmt.Fprintf(out, "deleted %d contacts of user %s\n", n, *user)
		return err
	})
}
