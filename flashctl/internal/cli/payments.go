package cli

import (
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order/conform"
)

type paymentsCmd struct {
	Conform paymentsConformCmd `cmd:"" help:"Run all cases of the payment provider shop against a test installation of the shop. PAYMENTS_SHOP_SECRET is the secret that it shares with order."`
}

type paymentsConformCmd struct {
	URL          string `arg:"" help:"Base of the routes that the shop serves for order."`
	CheckoutURL  string `required:"" help:"Page of the shop on which buyers pay."`
	CallbackAddr string `default:"127.0.0.1:8099" help:"Address to which the shop sends its callbacks during the check."`
}

func (c *paymentsConformCmd) Run(e env) error {
	var s struct {
		Secrets []string `env:"PAYMENTS_SHOP_SECRET,required" secret:"true"`
	}
	err := settings.Load(&s, nil)
	if err == nil {
		err = settings.CheckSecrets("PAYMENTS_SHOP_SECRET", s.Secrets, true) // those that order takes in production
	}
	if err != nil {
		return err
	}
	return conform.Shop(e.ctx, conform.Options{
		CheckoutURL: c.CheckoutURL, APIURL: c.URL, Secrets: s.Secrets, CallbackAddr: c.CallbackAddr,
	}, e.out)
}
