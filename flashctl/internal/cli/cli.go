// Package cli is the command line of flashctl.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/settings"
)

type commands struct {
	Token       tokenCmd       `cmd:"" help:"Print a token."`
	Sale        saleCmd        `cmd:"" help:"Make, publish and watch a sale."`
	Buy         buyCmd         `cmd:"" help:"Buy as one buyer and tell what happens."`
	Load        loadCmd        `cmd:"" help:"Let many distinct buyers buy and measure it."`
	DeadLetters deadLettersCmd `cmd:"" help:"List, replay or reject messages that were given up on."`
	Limits      limitsCmd      `cmd:"" help:"Look at the limits of all services, try and change them."`
	Reconcile   reconcileCmd   `cmd:"" help:"Compare gate, ledger and allowances of a sale and repair what disagrees; fails when something is left."`
	Demo        demoCmd        `cmd:"" help:"Play a whole sale and check every count."`
}

const description = `Talks to a running flash sale: to BASE_URL, or SECKILL_URL, ORDER_URL and INVENTORY_URL where they are set; else to the
three services of "make up" or the one process of "make run", whichever answers.

FLASHCTL_TOKEN is whom the commands of merchants and operators, and "buy", act as: a token of your identity provider. Without it
tokens are signed here with AUTH_HS256_SECRET (and AUTH_AUDIENCE, AUTH_ISSUER), or else asked from the services, which give them
out in development.`

// env is what every command gets.
type env struct {
	ctx       context.Context
	out, errs io.Writer
}

// connect finds the system; connections and attempts as in client.Options.
func (e env) connect(opts client.Options) (*client.Client, error) {
	origins, err := client.Discover(e.ctx)
	if err != nil {
		return nil, err
	}
	opts.Secret, opts.Audience, opts.Issuer = os.Getenv("AUTH_HS256_SECRET"), os.Getenv("AUTH_AUDIENCE"), os.Getenv("AUTH_ISSUER")
	return client.New(origins, opts), nil
}

// as connects as whom FLASHCTL_TOKEN names, or else with a token of that user and role.
func (e env) as(userID string, roles ...auth.Role) (*client.Caller, error) {
	return e.patiently(0, userID, roles...)
}

// patiently is as with that time for one answer; 0 is as long as usual.
func (e env) patiently(timeout time.Duration, userID string, roles ...auth.Role) (*client.Caller, error) {
	c, err := e.connect(client.Options{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("FLASHCTL_TOKEN"); token != "" {
		return c.As(token), nil
	}
	token, err := c.Token(e.ctx, userID, roles...)
	if err != nil {
		return nil, fmt.Errorf("no token for %s: %w", userID, err)
	}
	return c.As(token), nil
}

// Run runs one command and returns the exit status.
func Run(ctx context.Context, args []string, out, errs io.Writer) int {
	var cmds commands
	exit := -1
	parser, err := kong.New(&cmds,
		kong.Name("flashctl"), kong.Description(description),
		kong.Writers(out, errs), kong.Exit(func(status int) { exit = status }),
		kong.Bind(env{ctx: ctx, out: out, errs: errs}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(errs, "flashctl:", err)
		return 2
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 { // help was asked for
		return exit
	}
	if err != nil {
		fmt.Fprintln(errs, "flashctl:", err)
		return 2
	}
	if err := parsed.Run(); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return 130
		}
		fmt.Fprintln(errs, "flashctl:", err)
		return 1
	}
	return 0
}

type tokenCmd struct {
	User string        `required:"" help:"User id."`
	Role []auth.Role   `help:"merchant or operator." enum:"merchant,operator"`
	TTL  time.Duration `default:"12h" help:"How long it is good for."`
}

// Run signs here, with the secret of the services or that of development: no service needs to run.
func (c *tokenCmd) Run(e env) error {
	secret := os.Getenv("AUTH_HS256_SECRET")
	if secret == "" {
		secret = settings.DevelopmentAuthSecret
	}
	token, err := auth.MintFor(secret, auth.Identity{UserID: c.User, Roles: c.Role}, c.TTL, os.Getenv("AUTH_AUDIENCE"), os.Getenv("AUTH_ISSUER"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, token)
	return err
}
