package load_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/flashctl/internal/load"
	"flashsale.internal/flashctl/internal/shoptest"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryBuyerIsCounted(t *testing.T) {
	for name, rate := range map[string]float64{"closed loop": 0, "open loop": 500} {
		t.Run(name, func(t *testing.T) {
			shop := shoptest.Start(t, shoptest.Faults{LosesOrders: 2, Refuses: 5})
			c := client.New(client.Single(shop.URL), client.Options{})
			t.Cleanup(c.Close)
			ctx := t.Context()
			token, err := c.Token(ctx, "m", auth.Merchant)
			require.NoError(t, err)
			m := c.As(token)
			sku, err := m.NewProduct(ctx, client.Product{Name: "p"})
			require.NoError(t, err)
			// The sale is not open yet; buyers wait for its start.
			id, err := m.NewActivity(ctx, client.Draft{
				StartsAt: time.Now().Add(300 * time.Millisecond), PayWithinS: 60, Items: []client.Item{{SKUID: sku, Stock: 20}},
			})
			require.NoError(t, err)
			buyers, err := purchase.NewBuyers(ctx, c, 100)
			require.NoError(t, err)

			report, err := load.Run(ctx, buyers, load.Plan{
				ActivityID: id, Lines: []contract.Line{{SKUID: sku, Qty: 1}}, Width: 10, Rate: rate, Follow: 10 * time.Second,
			})
			require.NoError(t, err)
			require.Equal(t, map[purchase.Outcome]int{purchase.Accepted: 20, purchase.SoldOut: 80}, report.Outcomes)
			require.Equal(t, map[client.Status]int{client.Created: 18, client.Failed: 2}, report.Results)
			require.Zero(t, report.Unknown)
			require.Equal(t, 100, report.Whole.Count)
			if rate > 0 {
				require.GreaterOrEqual(t, report.Took, 198*time.Millisecond, "the last buyer begins after 99/500 s")
				require.GreaterOrEqual(t, report.Whole.Max,
					report.Path.Max, "the time counts from when a buyer was due")
			}
		})
	}
}
