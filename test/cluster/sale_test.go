package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

// A sale of one SKU that is open.
type sale struct {
	client   *client.Client
	merchant *client.Caller
	stock    int64
	id, sku  string
}

func openSale(t *testing.T, c *client.Client, stock int64) *sale {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	token, err := c.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	s := &sale{client: c, merchant: c.As(token), stock: stock}
	s.sku, err = s.merchant.NewProduct(ctx, client.Product{Name: "Phone", ListPrice: 99900, Currency: "EUR"})
	require.NoError(t, err)
	now := time.Now()
	s.id, err = s.merchant.NewActivity(ctx, client.Draft{
		Title: "Sale", StartsAt: now.Add(-time.Minute), EndsAt: now.Add(3 * time.Hour), PerUserLimit: 1,
		PayWithinS: 7200, // nothing is closed during a test
		Items:      []client.Item{{SKUID: s.sku, Price: 49900, Stock: stock}},
	})
	require.NoError(t, err)
	require.NoError(t, s.merchant.Change(ctx, s.id, "publish"))
	return s
}

func (s *sale) lines() []contract.Line { return []contract.Line{{SKUID: s.sku, Qty: 1}} }

// A purchase that was accepted.
type bought struct {
	user, orderSN string
	begun         time.Time // when its buyer pressed the button
	accepted      time.Time
	landed        time.Time // when its buyer first heard of an order
	paid          bool
}

// shoppers come at a pace, each buys one piece and waits for the order; every second one pays.
type shoppers struct {
	sale *sale

	mu      sync.Mutex
	bought  []*bought
	soldOut int
	wrong   []error
}

// shop is one of them from the button to the end.
func (s *shoppers) shop(ctx context.Context, n int) {
	user := fmt.Sprintf("c%s-%d", s.sale.id, n)
	b, err := s.buy(ctx, user, n%2 == 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.wrong = append(s.wrong, fmt.Errorf("buyer %s: %w", user, err))
	case b == nil:
		s.soldOut++
	}
}

func (s *shoppers) buy(ctx context.Context, user string, pays bool) (*bought, error) {
	token, err := s.sale.client.Token(ctx, user)
	if err != nil {
		return nil, err
	}
	caller := s.sale.client.As(token)
	b := &bought{user: user, begun: time.Now()}
	a := purchase.Buy(ctx, caller, user, s.sale.id, s.sale.lines())
	if a.Outcome == purchase.SoldOut {
		return nil, nil //nolint:nilnil // sold out is neither a purchase nor an error
	}
	if a.Outcome != purchase.Accepted {
		return nil, fmt.Errorf("%s: %w", a.Outcome, a.Err)
	}
	b.orderSN, b.accepted = a.OrderSN, time.Now()
	s.mu.Lock()
	s.bought = append(s.bought, b)
	s.mu.Unlock()
	v, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
		return caller.Reservation(ctx, s.sale.id, b.orderSN)
	}, func(v client.Reservation) bool { return v.Status != client.Queued })
	if err != nil || v.Status != client.Created {
		return b, fmt.Errorf("order %s is told as %s (%s): %w", b.orderSN, v.Status, v.Reason, err)
	}
	s.mu.Lock()
	b.landed = time.Now()
	s.mu.Unlock()
	if !pays {
		return b, nil
	}
	if err := purchase.Pay(ctx, caller, b.orderSN); err != nil {
		return b, fmt.Errorf("paying for %s: %w", b.orderSN, err)
	}
	_, err = purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
		return caller.Reservation(ctx, s.sale.id, b.orderSN)
	}, func(v client.Reservation) bool { return v.Status == client.Paid })
	if err != nil {
		return b, fmt.Errorf("order %s was paid and is not told so: %w", b.orderSN, err)
	}
	s.mu.Lock()
	b.paid = true
	s.mu.Unlock()
	return b, nil
}

// orderedSince tells whether somebody who pressed the button after that moment has an order.
func (s *shoppers) orderedSince(moment time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bought {
		if b.begun.After(moment) && !b.landed.IsZero() {
			return true
		}
	}
	return false
}

// waits are the longest times until a purchase was accepted, and until it had become an order, of those who pressed the button
// between the two moments.
func (s *shoppers) waits(from, to time.Time) (accepted, landed time.Duration, buyers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bought {
		if b.begun.Before(from) || b.begun.After(to) {
			continue
		}
		buyers++
		accepted = max(accepted, b.accepted.Sub(b.begun))
		landed = max(landed, b.landed.Sub(b.begun))
	}
	return accepted, landed, buyers
}

// books compares what buyers were told with the ledger and the gate: nothing lost, nothing doubled, nothing oversold.
func (s *shoppers) books(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, err := range s.wrong {
		if i < 10 {
			t.Error(err)
		}
	}
	require.Empty(t, s.wrong, "buyers to whom something wrong was told")
	paid := int64(0)
	told := map[string]*bought{}
	for _, b := range s.bought {
		require.NotContains(t, told, b.orderSN, "two purchases have one order")
		told[b.orderSN] = b
		if b.paid {
			paid++
		}
	}
	n := int64(len(s.bought))
	require.LessOrEqual(t, n, s.sale.stock, "oversold")

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var seen client.SKUStock
	_, err := purchase.Await(ctx, func(ctx context.Context) (client.SKUStock, error) {
		view, err := s.sale.merchant.Stock(ctx, s.sale.id)
		if err == nil && len(view.SKUs) == 1 {
			seen = view.SKUs[0]
		}
		return seen, err
	}, func(v client.SKUStock) bool {
		return v.MySQL.Available == s.sale.stock-n && v.MySQL.Reserved == n-paid && v.MySQL.Sold == paid &&
			v.Gate.Left == s.sale.stock-n && v.Gate.Held == n-paid && v.Journal == 0 && v.InFlight == 0 && v.Difference == 0
	})
	require.NoError(t, err, "%d bought, of which %d paid; the stock: %s", n, paid, seen)

	rows, err := s.sale.merchant.Holdings(ctx, s.sale.id)
	require.NoError(t, err)
	require.Len(t, rows, len(told))
	for _, row := range rows {
		b, ok := told[row.OrderSN]
		require.True(t, ok, "nobody was told of order %s of %s", row.OrderSN, row.UserID)
		require.Equal(t, b.user, row.UserID)
		require.Equal(t, map[bool]string{true: "sold", false: "reserved"}[b.paid], row.State, row.OrderSN)
		delete(told, row.OrderSN)
	}
	require.Empty(t, told, "purchases that the ledger does not have")
	letters, err := s.operator(ctx, t).DeadLetters(ctx)
	require.NoError(t, err)
	require.Empty(t, letters)
	t.Logf("%d buyers: %d bought, %d of them paid, %d found everything sold; difference 0", n+int64(s.soldOut), n, paid, s.soldOut)
}

func (s *shoppers) operator(ctx context.Context, t *testing.T) *client.Caller {
	t.Helper()
	token, err := s.sale.client.Token(ctx, "operator-1", auth.Operator)
	require.NoError(t, err)
	return s.sale.client.As(token)
}

// pace lets most shoppers in; rate tells how many a second there are to be when the n-th comes. It returns when all have
// come and know how it ended.
func (s *shoppers) pace(ctx context.Context, most int, rate func(n int) float64) {
	var all sync.WaitGroup
	defer all.Wait()
	for n := range most {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(float64(time.Second) / rate(n))):
		}
		all.Go(func() { s.shop(ctx, n) })
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }
