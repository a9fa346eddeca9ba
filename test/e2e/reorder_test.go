package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// holdingAndReordering: a path that was kept buys nothing after another purchase, a buyer who holds the limit gets no
// path, and the third cancelled order ends the buyer's allowance for ten minutes.
func holdingAndReordering(t *testing.T, r *rig.Rig) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	sale := shop.Open(t, r, shop.Sale{Stock: 10, PayWithinS: 300})
	token, err := r.Client.Token(ctx, "ann")
	require.NoError(t, err)
	ann := r.Client.As(token)
	kept, err := ann.NewPath(ctx, sale.ActivityID)
	require.NoError(t, err)

	becomes := func(orderSN string, status client.Status) {
		t.Helper()
		_, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return ann.Reservation(ctx, sale.ActivityID, orderSN)
		}, func(v client.Reservation) bool { return v.Status == status })
		require.NoError(t, err)
	}
	for range 3 {
		a := purchase.Buy(ctx, ann, "ann", sale.ActivityID, sale.Lines())
		require.Equal(t, purchase.Accepted, a.Outcome, "%v", a.Err)
		becomes(a.OrderSN, client.Created)
		_, err = ann.NewPath(ctx, sale.ActivityID)
		held := client.AsProblem(err)
		require.NotNil(t, held, "%v", err)
		require.Equal(t, contract.CodeLimitReached, held.Code)
		require.Equal(t, []string{a.OrderSN}, held.OrderSNs)

		_, err = ann.Cancel(ctx, a.OrderSN)
		require.NoError(t, err)
		becomes(a.OrderSN, client.Closed)
		_, err = ann.Reserve(ctx, sale.ActivityID, kept.Path, sale.Lines())
		require.Contains(t, []contract.Code{contract.CodePathExpired, contract.CodeLimitReached}, client.CodeOf(err))
	}
	_, err = ann.NewPath(ctx, sale.ActivityID)
	barred := client.AsProblem(err)
	require.NotNil(t, barred, "%v", err)
	require.Equal(t, contract.CodeLimitReached, barred.Code)
	require.InDelta(t, 10*time.Minute, time.Until(barred.BarredUntil), float64(2*time.Minute))

	a := purchase.Buy(ctx, r.Client.As(mustToken(ctx, t, r, "bob")), "bob", sale.ActivityID, sale.Lines())
	require.Equal(t, purchase.Accepted, a.Outcome, "%v", a.Err)
	sale.StockBecomes(t, 9, 1, 0, time.Minute)
}

func mustToken(ctx context.Context, t *testing.T, r *rig.Rig, user string) string {
	t.Helper()
	token, err := r.Client.Token(ctx, user)
	require.NoError(t, err)
	return token
}
