package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flashsale.internal/pkg/contract"
)

// Options are the parameters of the core. Zero values stand for the defaults, except for Now.
type Options struct {
	// Now is the clock of this process. It is required. It decides how long a process keeps what it has read, and
	// nothing else: deadlines, claims and sweeps are decided by Store.Now.
	Now func() time.Time

	// CheckClocks returns an error while this process must not decide by time. Then it neither closes expired orders
	// nor starts payments, and the call is repeated, by another process if there is one. Default: it always may.
	CheckClocks func(ctx context.Context) error

	// PaymentGrace is the age up to which a payment started before the deadline keeps its order open. Default 120 s.
	PaymentGrace time.Duration
	// MaxPayments bounds the payments that a buyer can start for one order. Default 20.
	MaxPayments int
	// OverdueAfter is the time past its deadline after which the closing of a pending order is published again.
	// Default 30 s.
	OverdueAfter time.Duration
	// ClosingsUnsent reports that delayed closings may not be delivered. Then OverdueAfter is overdueUnsent at most. The
	// default reports false.
	ClosingsUnsent func() bool
	// RefundTimeout bounds one call to a provider. Default 10 s.
	RefundTimeout time.Duration
	// RefundFirstRetry and RefundLastRetry bound the doubling back-off between attempts. Default 2 s and 10 min.
	RefundFirstRetry, RefundLastRetry time.Duration
	// CompareEvery is the pause between comparisons with a provider. Default 1 h.
	CompareEvery time.Duration
	// CompareAfter is the age from which charges and refunds are compared. Default 15 min.
	CompareAfter time.Duration
	// ContactKeep is the time after the end of an activity for which contacts are kept. Default 90 days.
	ContactKeep time.Duration
}

func (o *Options) setDefaults() {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&o.PaymentGrace, 120*time.Second)
	set(&o.OverdueAfter, 30*time.Second)
	set(&o.RefundTimeout, 10*time.Second)
	set(&o.RefundFirstRetry, 2*time.Second)
	set(&o.RefundLastRetry, 10*time.Minute)
	set(&o.CompareEvery, time.Hour)
	set(&o.CompareAfter, 15*time.Minute)
	set(&o.ContactKeep, 90*24*time.Hour)
	if o.MaxPayments <= 0 {
		o.MaxPayments = 20
	}
	if o.ClosingsUnsent == nil {
		o.ClosingsUnsent = func() bool { return false }
	}
	if o.CheckClocks == nil {
		o.CheckClocks = func(context.Context) error { return nil }
	}
}

// Service applies the rules of orders, payments and refunds.
type Service struct {
	store     Store
	pub       Publisher
	genes     Genes
	rec       Recorder
	providers map[string]Provider
	sealer    Sealer
	opts      Options

	descriptions descriptions
}

// New returns a service. It starts nothing.
func New(
	store Store, pub Publisher, genes Genes, rec Recorder, providers []Provider, sealer Sealer, opts Options,
) *Service {
	opts.setDefaults()
	byName := make(map[string]Provider, len(providers))
	for _, p := range providers {
		byName[p.Name()] = p
	}
	return &Service{store: store, pub: pub, genes: genes, rec: rec, providers: byName, sealer: sealer, opts: opts}
}

// now returns the time of this process in the precision of the tables, milliseconds.
func (s *Service) now() time.Time { return s.opts.Now().UTC().Truncate(time.Millisecond) }

// ErrClocks is in the chain of the refusals of a process that must not decide by time. Another process may accept the
// same call.
var ErrClocks = errors.New("clocks disagree")

// clocksRetryAfter is the pause that such a refusal suggests: a process measures its clock so often.
const clocksRetryAfter = 5 * time.Second

// requireClocks refuses as unavailable while this process must not decide by time.
func (s *Service) requireClocks(ctx context.Context) error {
	err := s.opts.CheckClocks(ctx)
	if err == nil {
		return nil
	}
	return contract.Refuse(contract.CodeUnavailable, "This process decides nothing by time at present. Repeat the call.").
		Because(fmt.Errorf("%w: %w", ErrClocks, err)).After(clocksRetryAfter)
}

// Provider returns the payment provider with this name.
func (s *Service) Provider(name string) (Provider, bool) {
	p, ok := s.providers[name]
	return p, ok
}

// backoff returns the pause after a number of attempts: first, doubled for each attempt, at most last.
func backoff(first, last time.Duration, attempts int) time.Duration {
	d := first
	for ; attempts > 0 && d < last; attempts-- {
		d *= 2
	}
	return min(d, last)
}
