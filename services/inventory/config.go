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

// Config holds the settings of the service itself. New gives a zero value its default.
type Config struct {
	settings.Auth
	settings.Internal
	settings.Direct

	// The order service's internal listener.
	OrderURL string `env:"ORDER_INTERNAL_URL" envDefault:"http://127.0.0.1:7082"`

	KeepEvery  time.Duration `env:"INVENTORY_KEEP_EVERY" envDefault:"1s"`  // interval of the gate controller
	SweepEvery time.Duration `env:"INVENTORY_SWEEP_EVERY" envDefault:"5s"` // interval of the sweeps
	// Pause before a deduction without an order is published again; doubles.
	RepublishAfter time.Duration `env:"INVENTORY_REPUBLISH_AFTER" envDefault:"60s"`
	// Longest pause between two publications.
	RepublishCap time.Duration `env:"INVENTORY_REPUBLISH_CAP" envDefault:"30m"`
	// Age from which a reservation without an order is given up.
	AbandonAfter time.Duration `env:"INVENTORY_ABANDON_AFTER" envDefault:"24h"`
	// Time past its pay window after which a reserved row gets a new closing. The pause doubles up to six times this.
	AskAfter time.Duration `env:"INVENTORY_ASK_AFTER" envDefault:"10m"`
	// Age from which an entry that did not land is journaled again; doubles.
	RejournalAfter time.Duration `env:"INVENTORY_REJOURNAL_AFTER" envDefault:"60s"`
	// Longest pause between two journalings.
	RejournalCap time.Duration `env:"INVENTORY_REJOURNAL_CAP" envDefault:"30m"`
	// Age from which an unfinished adjustment is resumed; longer than a call may take. The pause after a failed attempt
	// doubles up to fifteen times this.
	ResumeAfter time.Duration `env:"INVENTORY_RESUME_AFTER" envDefault:"20s"`
	// How long before the last confirmation of a gate the changes begin that it gets again, before refused units return
	// to it and after a change of the Redis master.
	ResettleWindow time.Duration `env:"INVENTORY_RESETTLE_WINDOW" envDefault:"10m"`
	ReconcileEvery time.Duration `env:"INVENTORY_RECONCILE_EVERY" envDefault:"60s"` // interval of the reconciler
	// A row that changed more recently counts as in flight to the gate.
	ReconcileGrace time.Duration `env:"INVENTORY_RECONCILE_GRACE" envDefault:"10s"`
	// Pause before a mismatch is compared again.
	ReconcilePause time.Duration `env:"INVENTORY_RECONCILE_PAUSE" envDefault:"2s"`
	// Interval of comparisons of all entries of an activity. Checks between them compare counters, and what changed. It
	// is up to six times as long where the comparisons take long.
	ReconcileFullEvery time.Duration `env:"INVENTORY_RECONCILE_FULL_EVERY" envDefault:"5m"`
	// ReconcileConfirmations is the number of equal comparisons in a row before a counter is corrected.
	ReconcileConfirmations int `env:"INVENTORY_RECONCILE_CONFIRMATIONS" envDefault:"3"`

	// Scheduled, open and paused activities that a merchant may have at a time.
	MaxActivities int64 `env:"MERCHANT_MAX_ACTIVITIES" envDefault:"100"`
	// SKUs that a merchant may have.
	MaxSKUs int64 `env:"MERCHANT_MAX_SKUS" envDefault:"10000"`

	Consumers int `env:"INVENTORY_CONSUMERS" envDefault:"4"` // concurrent messages of each topic
}

// Check reports the first setting out of range. A quota of zero is out of range: an operator who sets it may mean that
// a merchant may have nothing, or that there is no quota.
func (c Config) Check() error {
	if err := settings.CheckURL("ORDER_INTERNAL_URL", c.OrderURL); err != nil {
		return err
	}
	for _, d := range []struct {
		variable           string
		value, least, most time.Duration
	}{
		{"INVENTORY_KEEP_EVERY", c.KeepEvery, 10 * time.Millisecond, time.Minute},
		{"INVENTORY_SWEEP_EVERY", c.SweepEvery, 10 * time.Millisecond, 10 * time.Minute},
		{"INVENTORY_REPUBLISH_AFTER", c.RepublishAfter, 10 * time.Millisecond, time.Hour},
		{"INVENTORY_REPUBLISH_CAP", c.RepublishCap, 10 * time.Millisecond, 24 * time.Hour},
		{"INVENTORY_ABANDON_AFTER", c.AbandonAfter, 10 * time.Millisecond, 30 * 24 * time.Hour},
		{"INVENTORY_ASK_AFTER", c.AskAfter, 10 * time.Millisecond, 24 * time.Hour},
		{"INVENTORY_REJOURNAL_AFTER", c.RejournalAfter, 10 * time.Millisecond, time.Hour},
		{"INVENTORY_REJOURNAL_CAP", c.RejournalCap, 10 * time.Millisecond, 24 * time.Hour},
		{"INVENTORY_RESUME_AFTER", c.ResumeAfter, 10 * time.Millisecond, time.Hour},
		{"INVENTORY_RESETTLE_WINDOW", c.ResettleWindow, time.Second, 24 * time.Hour},
		{"INVENTORY_RECONCILE_EVERY", c.ReconcileEvery, 10 * time.Millisecond, 24 * time.Hour},
		{"INVENTORY_RECONCILE_FULL_EVERY", c.ReconcileFullEvery, 10 * time.Millisecond, 24 * time.Hour},
		{"INVENTORY_RECONCILE_GRACE", c.ReconcileGrace, 10 * time.Millisecond, time.Hour},
		{"INVENTORY_RECONCILE_PAUSE", c.ReconcilePause, time.Millisecond, time.Minute},
	} {
		if d.value != 0 && (d.value < d.least || d.value > d.most) {
			return settings.Wrong(d.variable, "is %s and must be %s to %s", d.value, d.least, d.most)
		}
	}
	switch {
	case c.ReconcileConfirmations < 0 || c.ReconcileConfirmations > 20:
		return settings.Wrong("INVENTORY_RECONCILE_CONFIRMATIONS", "is %d and must be 1 to 20",
			c.ReconcileConfirmations)
	case c.MaxActivities < 1 || c.MaxActivities > 10_000:
		return settings.Wrong("MERCHANT_MAX_ACTIVITIES", "is %d and must be 1 to 10000", c.MaxActivities)
	case c.MaxSKUs < 1 || c.MaxSKUs > 1_000_000:
		return settings.Wrong("MERCHANT_MAX_SKUS", "is %d and must be 1 to 1000000", c.MaxSKUs)
	case c.Consumers < 0 || c.Consumers > 64:
		return settings.Wrong("INVENTORY_CONSUMERS", "is %d and must be 1 to 64", c.Consumers)
	}
	return nil
}

func (c Config) withDefaults() Config {
	def, sweeps, rec := core.DefaultTiming(), sweep.DefaultConfig(), reconcile.DefaultConfig()
	for _, d := range []struct {
		value *time.Duration
		def   time.Duration
	}{
		{&c.KeepEvery, time.Second},
		{&c.SweepEvery, 5 * time.Second},
		{&c.RepublishAfter, sweeps.RepublishAfter},
		{&c.RepublishCap, sweeps.RepublishCap},
		{&c.AbandonAfter, sweeps.AbandonAfter},
		{&c.AskAfter, sweeps.AskAfter},
		{&c.RejournalAfter, sweeps.RejournalAfter},
		{&c.RejournalCap, sweeps.RejournalCap},
		{&c.ResumeAfter, sweeps.ResumeAfter},
		{&c.ResettleWindow, def.ResettleWindow},
		{&c.ReconcileEvery, time.Minute},
		{&c.ReconcileFullEvery, rec.FullEvery},
		{&c.ReconcileGrace, rec.Grace},
		{&c.ReconcilePause, rec.Pause},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if c.ReconcileConfirmations == 0 {
		c.ReconcileConfirmations = rec.Confirmations
	}
	quotas := core.DefaultQuotas()
	if c.MaxActivities == 0 {
		c.MaxActivities = quotas.Activities
	}
	if c.MaxSKUs == 0 {
		c.MaxSKUs = quotas.SKUs
	}
	if c.OrderURL == "" {
		c.OrderURL = "http://127.0.0.1:7082"
	}
	return c
}

func (c Config) timing() core.Timing {
	t := core.DefaultTiming()
	t.RepublishAfter, t.ResettleWindow = c.RepublishAfter, c.ResettleWindow
	return t
}

func (c Config) quotas() core.Quotas {
	return core.Quotas{Activities: c.MaxActivities, SKUs: c.MaxSKUs}
}

func (c Config) sweeps() sweep.Config {
	return sweep.Config{
		OrdersConfig: sweep.OrdersConfig{
			RepublishAfter: c.RepublishAfter, RepublishCap: c.RepublishCap, AbandonAfter: c.AbandonAfter,
		},
		OverdueConfig:     sweep.OverdueConfig{AskAfter: c.AskAfter, AskCap: 6 * c.AskAfter},
		JournalConfig:     sweep.JournalConfig{RejournalAfter: c.RejournalAfter, RejournalCap: c.RejournalCap},
		AdjustmentsConfig: sweep.AdjustmentsConfig{ResumeAfter: c.ResumeAfter, ResumeCap: 15 * c.ResumeAfter},
	}
}

func (c Config) reconcile() reconcile.Config {
	return reconcile.Config{
		Grace: c.ReconcileGrace, Pause: c.ReconcilePause, Confirmations: c.ReconcileConfirmations,
		FullEvery: c.ReconcileFullEvery,
	}
}
