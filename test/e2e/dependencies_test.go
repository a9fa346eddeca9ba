package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// TestStartsBeforeItsDependencies starts the services before Redis, the database and the broker. They respond 503,
// retry, and work without a restart as soon as the dependencies run.
func TestStartsBeforeItsDependencies(t *testing.T) {
	t.Parallel() // dependencies of its own
	dependencies := rig.OwnDependencies(t, 3500)
	r := rig.New(t, dependencies.Option())
	for _, p := range r.Processes() {
		p.Start(t)
	}
	for _, p := range r.Processes() {
		p.WaitStatus(t, p.Admin+"/livez", http.StatusOK, 2*time.Minute)
	}
	signing := client.New(r.Client.Origins(), client.Options{Secret: rig.TokenSecret})
	t.Cleanup(signing.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	token, err := signing.Token(ctx, "early-bird", "merchant")
	require.NoError(t, err)
	responses := func(want int, urls ...string) {
		t.Helper()
		for _, url := range urls {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			require.NoError(t, err)
			req.Header.Set("Authorization", "Bearer "+token)
			var resp *http.Response
			require.NoError(t, shop.Poll(ctx, func() (bool, error) { // this listener opens after that of /livez
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
				require.NoError(t, err, "503 carries Retry-After")
				require.Positive(t, after)
			}
		}
	}
	responses(http.StatusServiceUnavailable, r.Seckill.URL+"/v1/activities",
		r.Seckill.URL+"/v1/activities/1/reservations",
		r.Order.URL+"/v1/orders", r.Inventory.URL+"/v1/merchant/activities")

	dependencies.Do(t, "up", "namesrv", "broker")
	r.PrepareBroker(t)
	dependencies.Do(t, "up", "mariadb")
	dependencies.MakeDatabases(t)
	r.Migrate(t)
	dependencies.Do(t, "up", "redis")
	for _, p := range r.Processes() {
		p.WaitReady(t)
	}
	r.Seckill.WaitStatus(t, r.Seckill.URL+"/v1/activities", http.StatusOK, 2*time.Minute)
	responses(http.StatusOK, r.Order.URL+"/v1/orders", r.Inventory.URL+"/v1/merchant/activities")

	sale := shop.Open(t, r, shop.Sale{Stock: 3, PayWithinS: 600})
	purchasing, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	_, err = shop.BuyOne(purchasing, r.Client, sale, "early-bird")
	require.NoError(t, err)
	sale.StockBecomes(t, 2, 0, 1, 2*time.Minute)
}
