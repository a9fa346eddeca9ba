package installation

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

// A Sale is an open activity with one SKU.
type Sale struct {
	ID, SKU  string
	Merchant *client.Caller

	client *client.Client
	units  int64
}

// OpenSale publishes an activity that is open already, with so many units and one unit for each buyer.
func OpenSale(t *testing.T, c *client.Client, units int64) *Sale {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	token, err := c.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	s := &Sale{client: c, Merchant: c.As(token), units: units}
	s.SKU, err = s.Merchant.NewProduct(ctx, client.Product{Name: "Phone", ListPrice: 99900, Currency: "EUR"})
	require.NoError(t, err)
	now := time.Now()
	s.ID, err = s.Merchant.NewActivity(ctx, client.Draft{
		Title: "Sale", StartsAt: now.Add(-time.Minute), EndsAt: now.Add(3 * time.Hour), PerUserLimit: 1,
		PayWithinS: 7200, // no order expires during a test
		Items:      []client.Item{{SKUID: s.SKU, Price: 49900, Stock: units}},
	})
	require.NoError(t, err)
	require.NoError(t, s.Merchant.Change(ctx, s.ID, "publish"))
	return s
}

func (s *Sale) lines() []contract.Line { return []contract.Line{{SKUID: s.SKU, Qty: 1}} }

// acceptance is an accepted purchase. The zero landed means that its buyer has not seen an order yet.
type acceptance struct {
	user, orderSN           string
	begun, accepted, landed time.Time
	paid                    bool
}

// Buyers are the buyers of a sale. Each buys one unit and waits for the order; every second buyer pays.
type Buyers struct {
	sale *Sale

	mu       sync.Mutex
	accepted []*acceptance
	soldOut  int
	failures []error
}

// NewBuyers returns the buyers of a sale; none has bought yet.
func NewBuyers(s *Sale) *Buyers { return &Buyers{sale: s} }

// Shop runs the n-th buyer from the request of a path to the outcome.
func (b *Buyers) Shop(ctx context.Context, n int) {
	user := fmt.Sprintf("c%s-%d", b.sale.ID, n)
	sold, err := b.buy(ctx, user, n%2 == 0)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.failures = append(b.failures, fmt.Errorf("buyer %s: %w", user, err))
	case !sold:
		b.soldOut++
	}
}

// buy reports false without an error when the sale is sold out.
func (b *Buyers) buy(ctx context.Context, user string, pays bool) (sold bool, err error) {
	token, err := b.sale.client.Token(ctx, user)
	if err != nil {
		return false, err
	}
	caller := b.sale.client.As(token)
	a := &acceptance{user: user, begun: time.Now()}
	attempt := purchase.Buy(ctx, caller, user, b.sale.ID, b.sale.lines())
	if attempt.Outcome == purchase.SoldOut {
		return false, nil
	}
	if attempt.Outcome != purchase.Accepted {
		return false, fmt.Errorf("%s: %w", attempt.Outcome, attempt.Err)
	}
	a.orderSN, a.accepted = attempt.OrderSN, time.Now()
	b.add(a)
	status := func(ctx context.Context) (client.Reservation, error) {
		return caller.Reservation(ctx, b.sale.ID, a.orderSN)
	}
	v, err := purchase.Await(ctx, status, func(v client.Reservation) bool { return v.Status != client.Queued })
	if err != nil || v.Status != client.Created {
		return true, fmt.Errorf("order %s has status %s (%s): %w", a.orderSN, v.Status, v.Reason, err)
	}
	b.mu.Lock()
	a.landed = time.Now()
	b.mu.Unlock()
	if !pays {
		return true, nil
	}
	if err := purchase.Pay(ctx, caller, a.orderSN); err != nil {
		return true, fmt.Errorf("pay order %s: %w", a.orderSN, err)
	}
	_, err = purchase.Await(ctx, status, func(v client.Reservation) bool { return v.Status == client.Paid })
	if err != nil {
		return true, fmt.Errorf("order %s was paid and its status does not become paid: %w", a.orderSN, err)
	}
	b.mu.Lock()
	a.paid = true
	b.mu.Unlock()
	return true, nil
}

func (b *Buyers) add(a *acceptance) {
	b.mu.Lock()
	b.accepted = append(b.accepted, a)
	b.mu.Unlock()
}

// Arrive lets the buyers 0 to most-1 shop; rate returns the arrivals a second before the n-th buyer. It returns when
// all have arrived and got an outcome.
func (b *Buyers) Arrive(ctx context.Context, most int, rate func(n int) float64) {
	var all sync.WaitGroup
	defer all.Wait()
	for n := range most {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(float64(time.Second) / rate(n))):
		}
		all.Go(func() { b.Shop(ctx, n) })
	}
}

// Bought returns the number of accepted purchases.
func (b *Buyers) Bought() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accepted)
}

// OrderedSince reports whether a buyer who began after that moment has an order.
func (b *Buyers) OrderedSince(moment time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.accepted {
		if a.begun.After(moment) && !a.landed.IsZero() {
			return true
		}
	}
	return false
}

// Waits returns the longest times until a purchase was accepted and until it had become an order, of the buyers who
// began between the two moments, and the number of these buyers.
func (b *Buyers) Waits(from, to time.Time) (accepted, landed time.Duration, buyers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.accepted {
		if a.begun.Before(from) || a.begun.After(to) {
			continue
		}
		buyers++
		accepted = max(accepted, a.accepted.Sub(a.begun))
		landed = max(landed, a.landed.Sub(a.begun))
	}
	return accepted, landed, buyers
}

// Compare fails the test unless the ledger and the gate hold exactly the purchases that were accepted: none is lost,
// none is duplicated, no more units are sold than there were, and there is no dead letter.
func (b *Buyers) Compare(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, err := range b.failures {
		if i < 10 {
			t.Error(err)
		}
	}
	require.Empty(t, b.failures, "buyers with a wrong outcome")
	paid := int64(0)
	accepted := map[string]*acceptance{}
	for _, a := range b.accepted {
		require.NotContains(t, accepted, a.orderSN, "two purchases have one order")
		accepted[a.orderSN] = a
		if a.paid {
			paid++
		}
	}
	n := int64(len(b.accepted))
	require.LessOrEqual(t, n, b.sale.units, "oversold")

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var seen client.SKUStock
	_, err := purchase.Await(ctx, func(ctx context.Context) (client.SKUStock, error) {
		view, err := b.sale.Merchant.Stock(ctx, b.sale.ID)
		if err == nil && len(view.SKUs) == 1 {
			seen = view.SKUs[0]
		}
		return seen, err
	}, func(v client.SKUStock) bool {
		return v.MySQL.Available == b.sale.units-n && v.MySQL.Reserved == n-paid && v.MySQL.Sold == paid &&
			v.Gate.Left == b.sale.units-n && v.Gate.Held == n-paid && v.Journal == 0 && v.InFlight == 0 &&
			v.Difference == 0
	})
	require.NoError(t, err, "%d bought, of which %d paid; the stock: %s", n, paid, seen)

	rows, err := b.sale.Merchant.Ledger(ctx, b.sale.ID)
	require.NoError(t, err)
	require.Len(t, rows, len(accepted))
	for _, row := range rows {
		a, ok := accepted[row.OrderSN]
		require.True(t, ok, "the ledger has order %s of %s, which was accepted for no buyer", row.OrderSN, row.UserID)
		require.Equal(t, a.user, row.UserID)
		require.Equal(t, map[bool]string{true: "sold", false: "reserved"}[a.paid], row.State, row.OrderSN)
		delete(accepted, row.OrderSN)
	}
	require.Empty(t, accepted, "accepted purchases that the ledger does not have")
	token, err := b.sale.client.Token(ctx, "operator-1", auth.Operator)
	require.NoError(t, err)
	deadLetters, err := b.sale.client.As(token).DeadLetters(ctx, "")
	require.NoError(t, err)
	require.Empty(t, deadLetters)
	t.Logf("%d buyers: %d bought, %d of them paid, %d found it sold out; difference 0",
		n+int64(b.soldOut), n, paid, b.soldOut)
}

// Seconds formats a duration in seconds with one decimal.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }
