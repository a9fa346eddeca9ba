package trouble

import (
	"context"
	"database/sql"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// Inventory is down while a whole sale is accepted, and RocketMQ keeps the messages. After its restart they are
// delivered. It is killed during that, and some are redelivered. Every purchase lands once, and the wait shortens no
// pay window.
func TestBacklog(t *testing.T) {
	const (
		purchases = 20_000
		width     = 128
	)
	r := rig.Start(t, rig.Env("PATH_RATE", "100000"))
	s := &scene{r: r, lapse: map[string]string{}}
	s.patient, s.once = newClients(t, r)
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Minute)
	defer cancel()
	buyers, err := purchase.NewBuyers(ctx, s.patient, purchases)
	require.NoError(t, err)
	sale := shop.Open(t, r, shop.Sale{Stock: purchases, PayWithinS: 1800})
	s.lapses(t)

	r.Inventory.Kill(t)
	began := time.Now()
	won, wonBy, _ := sale.BuyAll(t, buyers, width)
	require.Len(t, won, purchases)
	gate := stockgate.New(r.Redis(t), stockgate.Options{})
	require.NoError(t, shop.Poll(ctx, func() (bool, error) {
		n, err := gate.JournalLen(ctx, sale.ActivityID)
		return err == nil && n == 0, err
	}), "the journal empties into RocketMQ without inventory")
	t.Logf("%d purchases accepted and handed to RocketMQ in %s without inventory", purchases,
		time.Since(began).Round(time.Millisecond))
	queued, err := wonBy[0].Reservation(ctx, sale.ActivityID, won[0].OrderSN)
	require.NoError(t, err)
	require.Equal(t, client.Queued, queued.Status, "the result meanwhile")
	require.NoError(t, shop.Until(ctx, began.Add(downtime)))

	back := time.Now()
	var recovered recovery
	var recovering errgroup.Group
	recovering.Go(func() (err error) {
		recovered, err = s.recovers(ctx, back)
		return err
	})
	start := func() {
		r.Inventory.Start(t)
		r.Inventory.WaitStatus(t, r.Inventory.Admin+"/livez", http.StatusOK, anyWithin)
	}
	start()
	landed := func(n int) {
		require.NoError(t, shop.Poll(ctx, func() (bool, error) {
			have := 0
			shop.Query(t, r.Dependencies.InventoryDSN, "SELECT COUNT(*) FROM reservations WHERE activity_id = ?",
				func(rows *sql.Rows) { require.NoError(t, rows.Scan(&have)) }, sale.ActivityID)
			return have >= n, nil
		}), "%d of the backlog in the ledger", n)
	}
	landed(purchases / 4)
	first := time.Since(back)
	r.Inventory.Kill(t)
	start()
	restarted := time.Now()
	landed(purchases)
	inLedger := time.Since(restarted)
	require.NoError(t, recovering.Wait())
	require.NoError(t, purchase.Each(ctx, 8, resultsSample, func(ctx context.Context, i int) error {
		k := i * (purchases - 1) / (resultsSample - 1)
		_, err := purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
			return wonBy[k].Reservation(ctx, sale.ActivityID, won[k].OrderSN)
		}, func(v client.Reservation) bool { return v.Status == client.Created })
		return err
	}))
	sale.StockBecomes(t, 0, purchases, 0, 5*time.Minute)
	t.Logf("first quarter of the backlog in the ledger %s after inventory was usable, killed then; the rest %s after it was usable again; "+
		"every order created and returned after %s; orders that expired meanwhile on sale again %s after the first restart", first.Round(time.Millisecond), inLedger.Round(time.Millisecond),
		time.Since(restarted).Round(time.Millisecond), recovered.lapsed)

	accepted := map[string]string{}
	for _, a := range won {
		accepted[a.OrderSN] = a.UserID
	}
	booked(t, r, sale, accepted)
	booked(t, r, s.lapsing, s.lapse)
	require.Zero(t, shop.Count(t, r.Dependencies.OrderDSN,
		"SELECT COUNT(*) FROM orders WHERE activity_id = ? AND (created_at < ? OR state <> 'pending')",
		sale.ActivityID, back.UTC().Add(-time.Second).Format("2006-01-02 15:04:05.000")),
		"orders created before inventory ran again, or ended by now")
	quiet(t, r)
}
