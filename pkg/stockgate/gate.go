package stockgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Options of a Gate. Zero fields take the defaults named.
type Options struct {
	// Timeout bounds one round trip, connecting and one retry included. Default 2 s.
	Timeout time.Duration
	// JournalMax is the number of journal entries from which on Reserve answers JournalFull. Default 500,000.
	JournalMax int64
	// ClaimAfter is for how long a relay may keep a journal entry before another one may have it. Default 15 s.
	ClaimAfter time.Duration
	// BreakerFailures is the number of consecutive calls without an answer that opens the breaker. Default 5.
	BreakerFailures uint32
	// BreakerOpenFor is how long the breaker refuses before one call may probe. Default 1 s.
	BreakerOpenFor time.Duration
	// OnBreaker, when set, hears each change of the breaker, by the names closed, half-open and open. It must not block.
	OnBreaker func(from, to string)
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.JournalMax <= 0 {
		o.JournalMax = 500_000
	}
	if o.ClaimAfter <= 0 {
		o.ClaimAfter = 15 * time.Second
	}
	if o.BreakerFailures == 0 {
		o.BreakerFailures = 5
	}
	if o.BreakerOpenFor <= 0 {
		o.BreakerOpenFor = time.Second
	}
	return o
}

// Gate speaks to all gates of one Redis. It is safe for concurrent use, owns no goroutine and does not close the client.
type Gate struct {
	rdb     redis.UniversalClient
	opts    Options
	breaker *gobreaker.CircuitBreaker[any]
}

// New makes a Gate over a client, best one from Connect. It does not touch Redis.
func New(rdb redis.UniversalClient, opts Options) *Gate {
	opts = opts.withDefaults()
	settings := gobreaker.Settings{
		Name:         "stockgate",
		MaxRequests:  1,
		Timeout:      opts.BreakerOpenFor,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= opts.BreakerFailures },
		IsSuccessful: func(err error) bool { return !unreachable(err) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
	}
	if opts.OnBreaker != nil {
		settings.OnStateChange = func(_ string, from, to gobreaker.State) { opts.OnBreaker(from.String(), to.String()) }
	}
	return &Gate{rdb: rdb, opts: opts, breaker: gobreaker.NewCircuitBreaker[any](settings)}
}

// Breaker is the state of the breaker: closed, half-open or open.
func (g *Gate) Breaker() string { return g.breaker.State().String() }

// call makes one bounded call through the breaker and maps its error.
func call[T any](ctx context.Context, g *Gate, do func(ctx context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil { // says nothing about Redis, so the breaker does not hear of it
		return zero, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	v, err := g.breaker.Execute(func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, g.opts.Timeout)
		defer cancel()
		return do(ctx)
	})
	if err != nil {
		return zero, classify(err)
	}
	return v.(T), nil
}
