package payment

import (
	"context"
	"errors"
	"time"

	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/services/order/internal/core"
)

// longestQueue bounds the calls of one kind that wait for their turns, by the time until the last one.
const longestQueue = 15 * time.Minute

// longestWait bounds the wait of a call that no buyer repeats.
const longestWait = 5 * time.Second

// Rate returns the limit of Paced for n calls of each kind a second: first come, first served.
func Rate(n int) ratelimit.Spec {
	return ratelimit.Spec{Algorithm: ratelimit.LeakyQueue, Limit: ratelimit.Limit{
		Rate: int64(n), Period: time.Second, Burst: int64(n) * int64(longestQueue/time.Second),
	}}
}

// Paced is a provider whose calls keep to a rate, separately for each kind, since providers count each endpoint by
// itself. A buyer who has to wait gets a *core.ProviderBusy with a turn; any other call waits for a few seconds.
type Paced struct {
	core.Provider
	turns ratelimit.Limiter
}

// Pace returns p with a limiter that all processes share.
func Pace(p core.Provider, turns ratelimit.Limiter) *Paced { return &Paced{p, turns} }

// Begin implements core.Provider. A payment that has had a turn reserved, or that the provider has already, does not
// take another one. No turn comes after the deadline.
func (p *Paced) Begin(ctx context.Context, pay core.Payment, deadline time.Time) (core.Begun, error) {
	if pay.TurnAt.IsZero() && pay.Reference == "" {
		most := max(0, min(longestQueue, time.Until(deadline)))
		res, err := p.turns.Take(ctx, ratelimit.Request{Key: p.Name() + " begin", N: 1, MaxWait: most})
		switch {
		case err != nil:
			return core.Begun{}, err
		case !res.Allowed:
			return core.Begun{}, &core.ProviderBusy{After: res.RetryAfter}
		case res.Wait > 0:
			return core.Begun{}, &core.ProviderBusy{After: res.Wait, Reserved: true}
		}
	}
	return p.Provider.Begin(ctx, pay, deadline)
}

// Cancel implements core.Provider.
func (p *Paced) Cancel(ctx context.Context, pay core.Payment) error {
	if err := p.wait(ctx, "cancel"); err != nil {
		return err
	}
	return p.Provider.Cancel(ctx, pay)
}

// Refund implements core.Provider.
func (p *Paced) Refund(ctx context.Context, pay core.Payment) error {
	if err := p.wait(ctx, "refund"); err != nil {
		return err
	}
	return p.Provider.Refund(ctx, pay)
}

// FindRefund implements core.Provider.
func (p *Paced) FindRefund(ctx context.Context, pay core.Payment) (core.ProviderRefund, bool, error) {
	if err := p.wait(ctx, "find refund"); err != nil {
		return core.ProviderRefund{}, false, err
	}
	return p.Provider.FindRefund(ctx, pay)
}

// FindCharge implements core.Provider.
func (p *Paced) FindCharge(ctx context.Context, pay core.Payment) (core.Charge, bool, error) {
	if err := p.wait(ctx, "find charge"); err != nil {
		return core.Charge{}, false, err
	}
	return p.Provider.FindCharge(ctx, pay)
}

// Charges implements core.Provider.
func (p *Paced) Charges(ctx context.Context, since time.Time, cursor string, limit int) ([]core.Charge, string, error) {
	if err := p.wait(ctx, "charges"); err != nil {
		return nil, "", err
	}
	return p.Provider.Charges(ctx, since, cursor, limit)
}

// Refunds implements core.Provider.
func (p *Paced) Refunds(
	ctx context.Context, since time.Time, cursor string, limit int,
) ([]core.ProviderRefund, string, error) {
	if err := p.wait(ctx, "refunds"); err != nil {
		return nil, "", err
	}
	return p.Provider.Refunds(ctx, since, cursor, limit)
}

// wait waits for the turn of a call. It returns a *core.ProviderBusy if that is not within longestWait.
func (p *Paced) wait(ctx context.Context, call string) error {
	res, err := ratelimit.Wait(ctx, p.turns, p.Name()+" "+call, 1, longestWait)
	if errors.Is(err, ratelimit.ErrLimited) {
		return &core.ProviderBusy{After: res.RetryAfter}
	}
	return err
}
