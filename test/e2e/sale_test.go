package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// closedWithin is the longest time from the deadline of an order to its closing.
const closedWithin = 3 * time.Second

// TestSale runs a whole sale: 20,000 buyers and 5,000 units, or with -short a fifth of both, and a pay window of 30 s.
// Half of the accepted buyers pay.
func TestSale(t *testing.T) {
	const (
		payWithin = 30 * time.Second
		width     = 128
	)
	buyersCount, units := 20_000, 5_000
	if testing.Short() {
		t.Parallel() // the whole sale needs the machine for itself
		buyersCount, units = buyersCount/5, units/5
	}
	r := rig.Start(t, rig.Env("PATH_RATE", "100000"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	// Tokens are signed here: thousands of them over HTTP would prove nothing.
	signing := client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: 20 * time.Second})
	t.Cleanup(signing.Close)
	buyers, err := purchase.NewBuyers(ctx, signing, buyersCount)
	require.NoError(t, err)
	sale := shop.Open(t, r, shop.Sale{Stock: int64(units), PayWithinS: int64(payWithin / time.Second)})

	began := time.Now()
	won, winners, losers := sale.BuyAll(t, buyers, width)
	t.Logf("%d buyers got a response within %s", buyersCount, time.Since(began).Round(time.Millisecond))
	require.Len(t, won, units, "purchases accepted")
	require.Len(t, losers, buyersCount-units)

	// Half of them pay, each as soon as the order exists.
	orders := make([]client.Order, len(won))
	require.NoError(t, purchase.Each(ctx, width, len(won), func(ctx context.Context, i int) error {
		_, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return winners[i].Reservation(ctx, sale.ActivityID, won[i].OrderSN)
		}, func(v client.Reservation) bool { return v.Status != client.Queued })
		if err != nil {
			return err
		}
		if i%2 == 0 {
			if err := purchase.Pay(ctx, winners[i].Caller, won[i].OrderSN); err != nil {
				return err
			}
		}
		orders[i], err = winners[i].Order(ctx, won[i].OrderSN)
		return err
	}))
	t.Logf("all orders created and half of them paid %s after the start", time.Since(began).Round(time.Millisecond))
	oneOrderEach(t, won, orders)

	// The other orders expire. By closed_at, none is closed early and none late.
	var mu sync.Mutex
	var worst time.Duration
	require.NoError(t, purchase.Each(ctx, width, len(won)/2, func(ctx context.Context, k int) error {
		i := 2*k + 1
		if err := shop.Until(ctx, orders[i].ExpiresAt.Add(closedWithin)); err != nil {
			return err
		}
		o, err := purchase.Await(ctx, func(ctx context.Context) (client.Order, error) {
			return winners[i].Order(ctx, won[i].OrderSN)
		}, func(o client.Order) bool { return o.State == "closed" })
		orders[i] = o
		mu.Lock()
		worst = max(worst, o.ClosedAt.Sub(o.ExpiresAt))
		mu.Unlock()
		return err
	}))
	for i := 1; i < len(orders); i += 2 {
		require.Equal(t, "expired", orders[i].CloseReason)
		late := orders[i].ClosedAt.Sub(orders[i].ExpiresAt)
		require.GreaterOrEqual(t, late, time.Duration(0), "order %s was closed early", orders[i].OrderSN)
	}
	t.Logf("%d orders closed, the latest %s after its deadline", len(orders)/2, worst)
	require.LessOrEqual(t, worst, closedWithin, "closed too late")
	sale.StockBecomes(t, int64(units/2), 0, int64(units/2), 60*time.Second)

	// Buyers who were refused buy the released units.
	secondWon, _, secondLost := sale.BuyAll(t, losers, width)
	require.Len(t, secondWon, units/2, "purchases of released units")
	require.Len(t, secondLost, len(losers)-units/2)
	sale.StockBecomes(t, 0, int64(units/2), int64(units/2), 60*time.Second)

	held, err := sale.Merchant.Ledger(ctx, sale.ActivityID)
	require.NoError(t, err)
	states, users := map[string]int{}, map[string]int{}
	for _, h := range held {
		states[h.State]++
		if h.State == "reserved" || h.State == "sold" {
			users[h.UserID]++
			require.LessOrEqual(t, users[h.UserID], 1, "user %s holds more than the limit", h.UserID)
		}
	}
	require.Equal(t, map[string]int{"sold": units / 2, "released": units / 2, "reserved": units / 2}, states)
	shop.NoDeadLetters(t, r)
}

func oneOrderEach(t *testing.T, won []purchase.Attempt, orders []client.Order) {
	t.Helper()
	seen := map[string]bool{}
	for i, o := range orders {
		require.Equal(t, won[i].OrderSN, o.OrderSN)
		require.Equal(t, won[i].UserID, o.UserID)
		require.False(t, seen[o.UserID], "user %s has two orders", o.UserID)
		seen[o.UserID] = true
	}
}
