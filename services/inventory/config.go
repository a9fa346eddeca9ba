// Package inventory is the inventory service: products, sales, their stock, its ledger, and the gate. This package
// composes it; cmd/inventory runs it as a process and allinone runs it together with the other services.
package inventory

import (
	"time"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/reconcile"
	"flashsale.internal/services/inventory/internal/sweep"
)

// Config holds the settings of the service itself. New gives a zero number or duration its default.
type Config struct {
	settings.Auth
	settings.Internal
	settings.Brokerless
	settings.Timers
	Webhooks Webhooks

	// Internal listener of order.
	OrderURL string `env:"ORDER_INTERNAL_URL" envDefault:"http://127.0.0.1:7082"`

	// Twice the longest lag of a replica that becomes the Redis master. Before the ledger refuses a purchase for lack of
	// units, and after a change of the master, a gate gets all changes again since this long before it was last confirmed.
	ResettleWindow time.Duration `env:"INVENTORY_RESETTLE_WINDOW" envDefault:"10m"`
	// Scheduled, open and paused activities that a merchant may have at a time; then 409 `quota_exceeded`.
	MaxActivities int64 `env:"MERCHANT_MAX_ACTIVITIES" envDefault:"100"`
	// SKUs that a merchant may have; then 409 `quota_exceeded`.
	MaxSKUs int64 `env:"MERCHANT_MAX_SKUS" envDefault:"10000"`

	// Publishing refuses prices that the payment providers cannot take.
	Payments    settings.Payments
	PaymentRate settings.PaymentRate

	// Messages of each topic handled at a time.
	Consumers int `env:"CONSUMERS" envDefault:"4"`
}

// Check reports the first setting out of range. A quota of zero is out of range: an operator who sets it may mean that
// a merchant may have nothing, or that there is no quota.
func (c Config) Check() error {
	if err := settings.CheckURL("ORDER_INTERNAL_URL", c.OrderURL); err != nil {
		return err
	}
	if _, err := c.timers(); err != nil {
		return err
	}
	switch {
	case c.ResettleWindow < time.Second || c.ResettleWindow > 24*time.Hour:
		return settings.Wrong("INVENTORY_RESETTLE_WINDOW", "is %s and must be 1s to 24h", c.ResettleWindow)
	case c.MaxActivities < 1 || c.MaxActivities > 10_000:
		return settings.Wrong("MERCHANT_MAX_ACTIVITIES", "is %d and must be 1 to 10000", c.MaxActivities)
	case c.MaxSKUs < 1 || c.MaxSKUs > 1_000_000:
		return settings.Wrong("MERCHANT_MAX_SKUS", "is %d and must be 1 to 1000000", c.MaxSKUs)
	case c.Consumers < 1 || c.Consumers > 64:
		return settings.Wrong("CONSUMERS", "is %d and must be 1 to 64", c.Consumers)
	}
	return nil
}

// timers are intervals and waits that only tests change.
type timers struct {
	keepEvery      time.Duration // interval of the gate controller
	sweepEvery     time.Duration // interval of the sweeps
	reconcileEvery time.Duration // interval of the reconciler
	sweeps         sweep.Config
	reconcile      reconcile.Config
}

func (c Config) timers() (timers, error) {
	t := timers{
		keepEvery: time.Second, sweepEvery: 5 * time.Second, reconcileEvery: time.Minute,
		sweeps: sweep.DefaultConfig(), reconcile: reconcile.DefaultConfig(),
	}
	err := c.SetTimers("inventory", map[string]*time.Duration{
		"keep_every": &t.keepEvery, "sweep_every": &t.sweepEvery, "reconcile_every": &t.reconcileEvery,
		"republish_after": &t.sweeps.RepublishAfter, "republish_cap": &t.sweeps.RepublishCap,
		"abandon_after": &t.sweeps.AbandonAfter, "ask_after": &t.sweeps.AskAfter,
		"rejournal_after": &t.sweeps.RejournalAfter, "rejournal_cap": &t.sweeps.RejournalCap,
		"resume_after":    &t.sweeps.ResumeAfter,
		"reconcile_grace": &t.reconcile.Grace, "reconcile_pause": &t.reconcile.Pause,
		"reconcile_full_every": &t.reconcile.FullEvery,
	})
	return t, err
}

func (c Config) timing(t timers) core.Timing {
	timing := core.DefaultTiming()
	timing.RepublishAfter, timing.ResettleWindow = t.sweeps.RepublishAfter, c.ResettleWindow
	return timing
}
