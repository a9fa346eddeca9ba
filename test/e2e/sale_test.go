package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/e2e/rig"
)

// Sale is a sale of one SKU that is open.
type Sale struct {
	Stock      int64
	PayWithinS int64

	ActivityID, SKUID string
	Merchant          *client.Caller
}

func (s Sale) lines() []contract.Line { return []contract.Line{{SKUID: s.SKUID, Qty: 1}} }

func openSale(t *testing.T, r *rig.Rig, s Sale) Sale {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	token, err := r.Client.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	s.Merchant = r.Client.As(token)
	s.SKUID, err = s.Merchant.NewProduct(ctx, client.Product{Name: "Phone", ListPrice: 99900, Currency: "EUR"})
	require.NoError(t, err)
	now := time.Now()
	s.ActivityID, err = s.Merchant.NewActivity(ctx, client.Draft{
		Title: "Sale", StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour), PerUserLimit: 1, PayWithinS: s.PayWithinS,
		Items: []client.Item{{SKUID: s.SKUID, Price: 49900, Stock: s.Stock}},
	})
	require.NoError(t, err)
	require.NoError(t, s.Merchant.Change(ctx, s.ActivityID, "publish"))
	return s
}

// stockBecomes waits until database and gate both say so and agree.
func (s Sale) stockBecomes(t *testing.T, available, reserved, sold int64, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var seen client.SKUStock
	_, err := purchase.Await(ctx, func(ctx context.Context) (client.SKUStock, error) {
		view, err := s.Merchant.Stock(ctx, s.ActivityID)
		if err == nil && len(view.SKUs) == 1 {
			seen = view.SKUs[0]
		}
		return seen, err
	}, func(v client.SKUStock) bool {
		return v.MySQL.Available == available && v.MySQL.Reserved == reserved && v.MySQL.Sold == sold &&
			v.Gate.Left == available && v.Gate.Held == reserved && v.Journal == 0 && v.InFlight == 0 && v.Difference == 0
	})
	require.NoError(t, err, "stock: want available %d, reserved %d, sold %d in both, have %+v", available, reserved, sold, seen)
}

// rush lets all of them press the button, width at a time.
func (s Sale) rush(t *testing.T, buyers []purchase.Buyer, width int) (won []purchase.Attempt, wonBy []purchase.Buyer, lost []purchase.Buyer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	attempts := make([]purchase.Attempt, len(buyers))
	require.NoError(t, purchase.Each(ctx, width, len(buyers), func(ctx context.Context, i int) error {
		attempts[i] = purchase.Buy(ctx, buyers[i].Caller, buyers[i].UserID, s.ActivityID, s.lines())
		return nil
	}))
	for i, a := range attempts {
		switch a.Outcome {
		case purchase.Accepted:
			won, wonBy = append(won, a), append(wonBy, buyers[i])
		case purchase.SoldOut:
			lost = append(lost, buyers[i])
		default:
			t.Fatalf("buyer %s got neither a piece nor sold out: %s: %v", a.UserID, a.Outcome, a.Err)
		}
	}
	return won, wonBy, lost
}

// closedWithin is how long after its deadline an order is closed at the latest.
const closedWithin = 3 * time.Second

// The main job: 20,000 buyers, 5,000 pieces, a pay window of 30 s, half of the winners pay.
func TestSale(t *testing.T) {
	const (
		buyersCount = 20_000
		pieces      = 5_000
		payWithin   = 30 * time.Second
		width       = 128
	)
	r := rig.Start(t, rig.Env("PATH_RATE", "100000"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	// Tokens are signed here: making 20,000 of them over HTTP proves nothing.
	signing := client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret, Timeout: 20 * time.Second})
	t.Cleanup(signing.Close)
	buyers, err := purchase.NewBuyers(ctx, signing, buyersCount)
	require.NoError(t, err)
	sale := openSale(t, r, Sale{Stock: pieces, PayWithinS: int64(payWithin / time.Second)})

	began := time.Now()
	won, winners, losers := sale.rush(t, buyers, width)
	t.Logf("%d buyers were answered in %s", buyersCount, time.Since(began).Round(time.Millisecond))
	require.Len(t, won, pieces, "sold exactly what there is: not one more, not one fewer")
	require.Len(t, losers, buyersCount-pieces)

	// Half of them pay, each as soon as the order is there: the window is running.
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
	t.Logf("all orders there and half of them paid %s after the start", time.Since(began).Round(time.Millisecond))
	oneOrderEach(t, won, orders)

	// The others run out. Nothing is closed early, nothing late: closed_at tells, and nobody's questions hold it up.
	var mu sync.Mutex
	var worst time.Duration
	require.NoError(t, purchase.Each(ctx, width, len(won)/2, func(ctx context.Context, k int) error {
		i := 2*k + 1
		if err := until(ctx, orders[i].ExpiresAt.Add(closedWithin)); err != nil {
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
	sale.stockBecomes(t, pieces/2, 0, pieces/2, 60*time.Second)

	// Those who got nothing buy what came back.
	secondWon, _, secondLost := sale.rush(t, losers, width)
	require.Len(t, secondWon, pieces/2, "what came back is sold again, exactly")
	require.Len(t, secondLost, len(losers)-pieces/2)
	sale.stockBecomes(t, 0, pieces/2, pieces/2, 60*time.Second)

	held, err := sale.Merchant.Holdings(ctx, sale.ActivityID)
	require.NoError(t, err)
	states, users := map[string]int{}, map[string]int{}
	for _, h := range held {
		states[h.State]++
		if h.State == "reserved" || h.State == "sold" {
			users[h.UserID]++
			require.LessOrEqual(t, users[h.UserID], 1, "user %s holds more than the limit", h.UserID)
		}
	}
	require.Equal(t, map[string]int{"sold": pieces / 2, "released": pieces / 2, "reserved": pieces / 2}, states)
	letters, err := operator(t, r).DeadLetters(ctx)
	require.NoError(t, err)
	require.Empty(t, letters)
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

func operator(t *testing.T, r *rig.Rig) *client.Caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	token, err := r.Client.Token(ctx, "operator-1", auth.Operator)
	require.NoError(t, err)
	return r.Client.As(token)
}

func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
