package shop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
)

// Sale is an open sale of one SKU.
type Sale struct {
	Stock      int64
	PayWithinS int64
	Challenge  contract.Challenge
	PerSecond  int // purchases while Redis is unavailable; 0 means that the sale stops then
	RoomRate   int64
	StartsIn   time.Duration // 0 means that it has started a minute ago

	StartsAt          time.Time
	ActivityID, SKUID string
	Merchant          *client.Caller
}

// Lines are the lines of a purchase of one unit.
func (s Sale) Lines() []contract.Line { return []contract.Line{{SKUID: s.SKUID, Qty: 1}} }

// CountOrders returns the number of orders of the sale.
func (s Sale) CountOrders(t *testing.T, r *rig.Rig) int64 {
	t.Helper()
	return Count(t, r.Dependencies.OrderDSN, "SELECT COUNT(*) FROM orders WHERE activity_id = ?", s.ActivityID)
}

// Open creates and publishes a sale with the stock, pay window, start and rules of s. A user may buy one unit.
func Open(t *testing.T, r *rig.Rig, s Sale) Sale {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	token, err := r.Client.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	s.Merchant = r.Client.As(token)
	s.SKUID, err = s.Merchant.NewProduct(ctx, client.Product{Name: "Phone", ListPrice: 99900, Currency: "EUR"})
	require.NoError(t, err)
	now := time.Now()
	s.StartsAt = now.Add(-time.Minute)
	if s.StartsIn > 0 {
		s.StartsAt = now.Add(s.StartsIn)
	}
	draft := client.Draft{
		Title: "Sale", StartsAt: s.StartsAt, EndsAt: now.Add(time.Hour), PerUserLimit: 1,
		PayWithinS: s.PayWithinS,
		Items:      []client.Item{{SKUID: s.SKUID, Price: 49900, Stock: s.Stock}},
		Challenge:  s.Challenge.Kind, ChallengeDifficulty: s.Challenge.Difficulty,
	}
	if s.RoomRate > 0 {
		draft.WaitingRoom = &client.WaitingRoom{AdmitPerSecond: s.RoomRate}
	}
	if s.PerSecond > 0 {
		draft.DegradedSale = &client.DegradedSale{PerSecond: int64(s.PerSecond)}
	}
	s.ActivityID, err = s.Merchant.NewActivity(ctx, draft)
	require.NoError(t, err)
	require.NoError(t, s.Merchant.Change(ctx, s.ActivityID, "publish"))
	return s
}

// StockBecomes waits until database and gate both show these quantities, agree, and nothing is in flight.
func (s Sale) StockBecomes(t *testing.T, available, reserved, sold int64, within time.Duration) {
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
			v.Gate.Left == available && v.Gate.Held == reserved && v.Journal == 0 && v.InFlight == 0 &&
			v.Difference == 0
	})
	require.NoError(t, err, "stock: want available %d, reserved %d, sold %d in both, have %+v", available, reserved,
		sold, seen)
}

// BuyAll lets every buyer attempt a purchase, width at a time. Each attempt must be accepted or refused as sold out.
// won and wonBy have the same order.
func (s Sale) BuyAll(
	t *testing.T, buyers []purchase.Buyer, width int,
) (won []purchase.Attempt, wonBy, lost []purchase.Buyer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	attempts := make([]purchase.Attempt, len(buyers))
	require.NoError(t, purchase.Each(ctx, width, len(buyers), func(ctx context.Context, i int) error {
		attempts[i] = purchase.Buy(ctx, buyers[i].Caller, buyers[i].UserID, s.ActivityID, s.Lines())
		return nil
	}))
	for i, a := range attempts {
		switch a.Outcome {
		case purchase.Accepted:
			won, wonBy = append(won, a), append(wonBy, buyers[i])
		case purchase.SoldOut:
			lost = append(lost, buyers[i])
		default:
			t.Fatalf("buyer %s was neither accepted nor refused as sold out: %s: %v", a.UserID, a.Outcome, a.Err)
		}
	}
	return won, wonBy, lost
}

// BuyOne buys one unit, pays for it, waits until the result is paid, and returns the order_sn. It returns an error and
// does not end the test, so that goroutines may call it.
func BuyOne(ctx context.Context, c *client.Client, sale Sale, userID string) (orderSN string, err error) {
	token, err := c.Token(ctx, userID)
	if err != nil {
		return "", err
	}
	buyer := c.As(token)
	a := purchase.Buy(ctx, buyer, userID, sale.ActivityID, sale.Lines())
	if a.Outcome != purchase.Accepted {
		return "", fmt.Errorf("%s: %w", a.Outcome, a.Err)
	}
	await := func(status client.Status) error {
		_, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return buyer.Reservation(ctx, sale.ActivityID, a.OrderSN)
		}, func(v client.Reservation) bool { return v.Status == status })
		if err != nil {
			return fmt.Errorf("order %s never was %s: %w", a.OrderSN, status, err)
		}
		return nil
	}
	if err := await(client.Created); err != nil {
		return "", err
	}
	if err := purchase.Pay(ctx, buyer, a.OrderSN); err != nil {
		return "", fmt.Errorf("paying for order %s: %w", a.OrderSN, err)
	}
	return a.OrderSN, await(client.Paid)
}

// Operator is a caller with the operator's role.
func Operator(t *testing.T, r *rig.Rig) *client.Caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	token, err := r.Client.Token(ctx, "operator-1", auth.Operator)
	require.NoError(t, err)
	return r.Client.As(token)
}

// NoDeadLetters requires that no step gave up on a message.
func NoDeadLetters(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	deadLetters, err := Operator(t, r).DeadLetters(ctx, "")
	require.NoError(t, err)
	require.Empty(t, deadLetters, "dead letters")
}
