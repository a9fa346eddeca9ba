package stockgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// Options configures a Gate. A zero field means its default.
type Options struct {
	// Timeout bounds one round trip, including the connection set-up and one retry. Default 2 s.
	Timeout time.Duration
	// JournalMax is the number of journaled purchases from which Reserve returns JournalFull. Default 500,000.
	JournalMax int64
	// MemoryReserve is the part of maxmemory, in percent, that purchases leave free, see MeasureMemory. Default 10.
	MemoryReserve int
	// WaitReplicas is the number of replicas that must have a purchase before Reserve returns Accepted for it. With 0,
	// an asynchronous failover may lose purchases that were accepted in the last instant.
	WaitReplicas int
	// ClaimAfter is the time after which a relay may claim a journal entry that another relay has read but not acked.
	// Default 15 s.
	ClaimAfter time.Duration
	// BreakerFailures is the number of consecutive calls without a reply that opens the circuit breaker. Default 5.
	BreakerFailures uint32
	// BreakerOpenFor is the time for which the open breaker rejects calls before it lets one probe through. Default 1
	// s.
	BreakerOpenFor time.Duration
	// OnBreaker, when set, is called at each change of the breaker with its old and new state: closed, half-open or
	// open. It must not block.
	OnBreaker func(from, to string)
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	if o.JournalMax <= 0 {
		o.JournalMax = 500_000
	}
	if o.MemoryReserve <= 0 {
		o.MemoryReserve = 10
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

// Gate is the client of all gates in one Redis. It is safe for concurrent use, owns no goroutine and does not close the
// Redis client.
type Gate struct {
	rdb     redis.UniversalClient
	opts    Options
	breaker *gobreaker.CircuitBreaker[any]
	full    fullMasters
}

// New returns a Gate that uses the given Redis client, which should come from Connect. It does not connect to Redis.
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

// Breaker returns the state of the circuit breaker: closed, half-open or open.
func (g *Gate) Breaker() string { return g.breaker.State().String() }

// call runs do within Options.Timeout and through the breaker, and maps its error with classify.
func call[T any](ctx context.Context, g *Gate, do func(ctx context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil { // not a failure of Redis: the breaker must not count it
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
