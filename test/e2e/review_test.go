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

// reviewBeforeFulfilment: a buyer who tried many invalid paths is on the merchant's review list, who cancels that
// paid order and an unpaid one. The payment is refunded, and the units are on sale again.
func reviewBeforeFulfilment(t *testing.T, r *rig.Rig) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	sale := shop.Open(t, r, shop.Sale{Stock: 10, PayWithinS: 300})
	paid, err := shop.BuyOne(ctx, r.Client, sale, "robot")
	require.NoError(t, err)
	robot := r.Client.As(mustToken(ctx, t, r, "robot"))
	for range 5 {
		_, err := robot.Reserve(ctx, sale.ActivityID, "AQHV7HlIgAAMAAAAAGlVulufO1JXJqu8nfZWgX6e52wV", sale.Lines())
		require.Equal(t, contract.CodePathInvalid, client.CodeOf(err), "%v", err)
	}
	ann := r.Client.As(mustToken(ctx, t, r, "ann"))
	unpaid := purchase.Buy(ctx, ann, "ann", sale.ActivityID, sale.Lines())
	require.Equal(t, purchase.Accepted, unpaid.Outcome, "%v", unpaid.Err)
	_, err = purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
		return ann.Reservation(ctx, sale.ActivityID, unpaid.OrderSN)
	}, func(v client.Reservation) bool { return v.Status == client.Created })
	require.NoError(t, err)
	sale.StockBecomes(t, 8, 1, 1, time.Minute)

	var list []client.ReviewedOrder
	require.Eventually(t, func() bool {
		list, err = sale.Merchant.Review(ctx, sale.ActivityID)
		return err == nil && len(list) > 0
	}, time.Minute, time.Second, "%v", err)
	require.Equal(t, []client.ReviewedOrder{{OrderSN: paid, UserID: "robot", Causes: []string{"voided_paths"}}}, list)

	for range 2 { // the call may be repeated
		results, err := sale.Merchant.CancelOrders(ctx, sale.ActivityID, []string{paid, unpaid.OrderSN, "42"}, "robots")
		require.NoError(t, err)
		require.Equal(t, []client.CancelResult{
			{OrderSN: paid, Outcome: "refunding"},
			{OrderSN: unpaid.OrderSN, Outcome: "cancelled"},
			{OrderSN: "42", Outcome: "not_found"},
		}, results)
	}
	sale.StockBecomes(t, 10, 0, 0, time.Minute)
	order, err := robot.Order(ctx, paid)
	require.NoError(t, err)
	require.Equal(t, "refunded", order.State)
	list, err = sale.Merchant.Review(ctx, sale.ActivityID)
	require.NoError(t, err)
	require.Empty(t, list)
	shop.NoDeadLetters(t, r)
}
