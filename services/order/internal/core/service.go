package core

import (
	"time"
)

// Options are the figures the core works with.
type Options struct {
	Now func() time.Time

	// PaymentGrace is how long a payment begun before the deadline may keep its order open. Default 120 s.
	PaymentGrace time.Duration
	// MaxPayments bounds the payments one buyer may start for one order. Default 20.
	MaxPayments int
	// OverdueAfter is how long past its deadline a pending order may be before its closing is published again. Default 30 s.
	OverdueAfter time.Duration
	// RefundAttempts is after how many failed attempts a refund is given up and left to a person. Default 60, with the
	// back-off below about nine hours.
	RefundAttempts int
	// RefundTimeout bounds one call to a provider. Default 10 s.
	RefundTimeout time.Duration
	// RefundFirstRetry and RefundLastRetry bound the doubling back-off between attempts. Default 2 s and 10 min.
	RefundFirstRetry, RefundLastRetry time.Duration
}

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
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
	if o.MaxPayments <= 0 {
		o.MaxPayments = 20
	}
	if o.RefundAttempts <= 0 {
		o.RefundAttempts = 60
	}
}

// Service is the order service without its edges.
type Service struct {
	store     Store
	pub       Publisher
	shards    Shards
	rec       Recorder
	providers map[string]Provider
	opts      Options
}

// New puts the service together.
func New(store Store, pub Publisher, shards Shards, rec Recorder, providers []Provider, opts Options) *Service {
	opts.fill()
	byName := make(map[string]Provider, len(providers))
	for _, p := range providers {
		byName[p.Name()] = p
	}
	return &Service{store: store, pub: pub, shards: shards, rec: rec, providers: byName, opts: opts}
}

// now is the present in the precision that the tables keep.
func (s *Service) now() time.Time { return s.opts.Now().UTC().Truncate(time.Millisecond) }

// Provider finds a payment provider by name.
func (s *Service) Provider(name string) (Provider, bool) {
	p, ok := s.providers[name]
	return p, ok
}

// doubling is the back-off after so many attempts: first, 2 first, 4 first, ... last.
func doubling(first, last time.Duration, attempts int) time.Duration {
	d := first
	for ; attempts > 0 && d < last; attempts-- {
		d *= 2
	}
	return min(d, last)
}
