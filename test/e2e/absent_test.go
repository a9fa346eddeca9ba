package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/e2e/rig"
)

// Services that start before Redis, the database and the broker say so with 503, keep trying, and work as soon as the
// parts are there, without a restart.
func TestStartsBeforeItsParts(t *testing.T) {
	parts := rig.OwnParts(t, 3000)
	r := rig.New(t, parts.Option())
	for _, p := range r.Processes() {
		p.Start(t)
	}
	for _, p := range r.Processes() {
		p.WaitStatus(t, p.Admin+"/livez", http.StatusOK, 30*time.Second)
	}
	signing := client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret})
	t.Cleanup(signing.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	token, err := signing.Token(ctx, "early-bird", "merchant")
	require.NoError(t, err)
	answers := func(want int, urls ...string) {
		t.Helper()
		for _, url := range urls {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			var resp *http.Response
			require.NoError(t, often(ctx, func() (bool, error) { // this address comes after that of /livez
				resp, err = http.DefaultClient.Do(req)
				return err == nil, err
			}))
			var problem struct {
				Code contract.Code `json:"code"`
			}
			_ = json.NewDecoder(resp.Body).Decode(&problem)
			_ = resp.Body.Close()
			require.Equal(t, want, resp.StatusCode, "%s: %s", url, problem.Code)
			if want == http.StatusServiceUnavailable {
				after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				require.NoError(t, err, "503 tells when to come again")
				require.Positive(t, after)
			}
		}
	}
	answers(http.StatusServiceUnavailable, r.Seckill.URL+"/v1/activities", r.Seckill.URL+"/v1/activities/1/reservations",
		r.Order.URL+"/v1/orders", r.Inventory.URL+"/v1/merchant/activities")

	parts.Do(t, "up", "namesrv", "broker")
	r.PrepareBroker(t)
	parts.Do(t, "up", "mariadb")
	parts.MakeDatabases(t)
	r.Migrate(t)
	parts.Do(t, "up", "redis")
	for _, p := range r.Processes() {
		p.WaitReady(t)
	}
	r.Seckill.WaitStatus(t, r.Seckill.URL+"/v1/activities", http.StatusOK, 30*time.Second)
	answers(http.StatusOK, r.Order.URL+"/v1/orders", r.Inventory.URL+"/v1/merchant/activities")

	sale := openSale(t, r, Sale{Stock: 3, PayWithinS: 600})
	buyOneToTheEnd(t, r, sale, "early-bird")
	sale.stockBecomes(t, 2, 0, 1, 30*time.Second)
}

// buyOneToTheEnd buys one piece and pays for it.
func buyOneToTheEnd(t *testing.T, r *rig.Rig, sale Sale, userID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	require.NoError(t, buyOne(ctx, r.Client, sale, userID))
}

func buyOne(ctx context.Context, c *client.Client, sale Sale, userID string) error {
	token, err := c.Token(ctx, userID)
	if err != nil {
		return err
	}
	buyer := c.As(token)
	a := purchase.Buy(ctx, buyer, userID, sale.ActivityID, sale.lines())
	if a.Outcome != purchase.Accepted {
		return fmt.Errorf("%s: %w", a.Outcome, a.Err)
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
		return err
	}
	if err := purchase.Pay(ctx, buyer, a.OrderSN); err != nil {
		return fmt.Errorf("paying for order %s: %w", a.OrderSN, err)
	}
	return await(client.Paid)
}
