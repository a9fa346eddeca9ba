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
	Products    productsCmd    `cmd:"" help:"Import the products of a CSV file."`
	Sale        saleCmd        `cmd:"" help:"Create, publish, change and watch a sale."`
	Buy         buyCmd         `cmd:"" help:"Make one purchase and print its states."`
	Load        loadCmd        `cmd:"" help:"Run load tests."`
	DeadLetters deadLettersCmd `cmd:"" help:"List, replay or reject dead letters."`
	Refunds     refundsCmd     `cmd:"" help:"List, retry or settle by hand the refunds that wait for an operator."`
	Payments    paymentsCmd    `cmd:"" help:"Check the server of a shop that takes the payments itself."`
	Limits      limitsCmd      `cmd:"" help:"Read, try and change the limits of all services."`
	Room        roomCmd        `cmd:"" help:"Verify the draw of a waiting room."`
	Reconcile   reconcileCmd   `cmd:"" help:"Compare and repair gate, ledger and allowances; fails if a mismatch remains."`
	Demo        demoCmd        `cmd:"" help:"Run the sales of two merchants side by side and check every count."`
}

const description = `Calls a running system at BASE_URL, or at SECKILL_URL, ORDER_URL and INVENTORY_URL, if they
are set. Otherwise it calls "make up" (its edge, or else its three services) or the one process of "make run",
whichever responds.

FLASHCTL_TOKEN is the token of your identity provider for the commands of merchants and operators, and for "buy".
Without it flashctl signs tokens with the first secret of AUTH_HS256_SECRET (and AUTH_AUDIENCE, AUTH_ISSUER), for
the merchant of --merchant. Without that secret it requests development tokens from the services, which issue them in
development only.`

// env is the environment of a command.
type env struct {
	ctx       context.Context
	out, errs io.Writer
}

// connect finds the system and returns a client with these options.
func (e env) connect(opts client.Options) (*client.Client, error) {
	origins, err := client.Discover(e.ctx)
	if err != nil {
		return nil, err
	}
	signing, err := loadSigning()
	if err != nil {
		return nil, err
	}
	opts.Secret, opts.Audience, opts.Issuer = signing.secretOr(""), signing.Audience, signing.Issuer
	return client.New(origins, opts), nil
}

// as returns a caller with the token FLASHCTL_TOKEN, or else with a token for id.
func (e env) as(id auth.Identity) (*client.Caller, error) { return e.asWithTimeout(0, id) }

// asWithTimeout is as with a time-out for each call; 0 means the default.
func (e env) asWithTimeout(timeout time.Duration, id auth.Identity) (*client.Caller, error) {
	c, err := e.connect(client.Options{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	if token := os.Getenv("FLASHCTL_TOKEN"); token != "" {
		if id.MerchantID != "" {
			return nil, errors.New("--merchant has no effect with FLASHCTL_TOKEN: the claims of that token name the merchant")
		}
		return c.As(token), nil
	}
	token, err := c.TokenFor(e.ctx, id)
	if err != nil {
		return nil, fmt.Errorf("token for %s: %w", id.UserID, err)
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
	if exit >= 0 { // it printed the help
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
	merchantFlag
	User string        `required:"" help:"User id."`
	Role []auth.Role   `help:"merchant or operator." enum:"merchant,operator"`
	TTL  time.Duration `default:"12h" help:"Lifetime."`
}

// Run signs a token with the secret of the services, or the development secret. It needs no running service.
func (c *tokenCmd) Run(e env) error {
	signing, err := loadSigning()
	if err != nil {
		return err
	}
	id := auth.Identity{UserID: c.User, Roles: c.Role, MerchantID: string(c.Merchant)}
	secret := signing.secretOr(settings.DevelopmentAuthSecret)
	token, err := auth.MintFor(secret, id, c.TTL, signing.Audience, signing.Issuer)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, token)
	return err
}
