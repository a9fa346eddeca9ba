package payment_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/services/order/internal/core"
	"flashsale.internal/services/order/internal/payment"
)

// counted counts the calls that reach a provider.
type counted struct {
	core.Provider
	begun, refunded int
}

func (*counted) Name() string { return "counted" }

func (c *counted) Begin(context.Context, core.Payment, time.Time) (core.Begun, error) {
	c.begun++
	return core.Begun{}, nil
}

func (c *counted) Refund(context.Context, core.Payment) error {
	c.refunded++
	return nil
}

// Buyers get one turn after the other, and each uses it once, whenever it comes back.
func TestBuyersGetTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, err := ratelimit.NewLocal(payment.Rate(10))
		require.NoError(t, err)
		of := &counted{}
		p := payment.Pace(of, turns)
		start := time.Now()
		var waiting []core.Payment
		for range 30 {
			_, err := p.Begin(t.Context(), core.Payment{}, time.Now().Add(time.Hour))
			var busy *core.ProviderBusy
			if err == nil {
				continue
			}
			require.ErrorAs(t, err, &busy)
			require.True(t, busy.Reserved)
			waiting = append(waiting, core.Payment{TurnAt: start.Add(busy.After)})
		}
		require.Equal(t, 1, of.begun)
		for i, pay := range waiting {
			require.Equal(t, start.Add(time.Duration(i+1)*100*time.Millisecond), pay.TurnAt)
			_, err := p.Begin(t.Context(), pay, time.Now().Add(time.Hour))
			require.NoError(t, err)
		}
		require.Equal(t, 30, of.begun)
	})
}

// Calls that no buyer waits for wait by themselves, and have turns of their own: providers count each endpoint.
func TestOtherCallsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, err := ratelimit.NewLocal(payment.Rate(10))
		require.NoError(t, err)
		of := &counted{}
		p := payment.Pace(of, turns)
		start := time.Now()
		for range 11 {
			require.NoError(t, p.Refund(t.Context(), core.Payment{}))
		}
		require.Equal(t, time.Second, time.Since(start))
		_, err = p.Begin(t.Context(), core.Payment{}, time.Now().Add(time.Hour))
		require.NoError(t, err)
		for range 100 {
			_, err = p.Begin(t.Context(), core.Payment{}, time.Now().Add(time.Hour))
		}
		var busy *core.ProviderBusy
		require.ErrorAs(t, err, &busy)
		require.Equal(t, 10*time.Second, busy.After)
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, err := ratelimit.NewLocal(payment.Rate(1))
		require.NoError(t, err)
		p := payment.Pace(&counted{}, turns)
		refused := 0
		for range 1000 {
			_, err := p.Begin(t.Context(), core.Payment{}, time.Now().Add(time.Hour))
			if busy := (*core.ProviderBusy)(nil); err != nil {
				require.ErrorAs(t, err, &busy)
				if !busy.Reserved {
					refused++
				}
				require.LessOrEqual(t, busy.After, 15*time.Minute)
			}
		}
		require.InDelta(t, 100, refused, 2)
	})
}

func TestNoTurnComesAfterTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, err := ratelimit.NewLocal(payment.Rate(1))
		require.NoError(t, err)
		p := payment.Pace(&counted{}, turns)
		deadline := time.Now().Add(3 * time.Second)
		reserved := 0
		for range 10 {
			_, err := p.Begin(t.Context(), core.Payment{}, deadline)
			if busy := (*core.ProviderBusy)(nil); errors.As(err, &busy) && busy.Reserved {
				require.LessOrEqual(t, busy.After, 3*time.Second)
				reserved++
			}
		}
		require.Equal(t, 3, reserved)
	})
}
