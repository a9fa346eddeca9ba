package trouble

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/flashctl/client/purchase"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// rotated is a secret that the processes of some services share with each other or with their clients.
type rotated struct{ variable, before, after string }

var (
	tokens    = rotated{"AUTH_HS256_SECRET", "old-secret-of-tokens-0123456789abcdef", "new-secret-of-tokens-0123456789abcdef"}
	internal  = rotated{"INTERNAL_SECRET", "old-secret-of-internal-calls-0123456789", "new-secret-of-internal-calls-0123456789"}
	paths     = rotated{"PATH_SECRETS", "old-secret-of-paths-0123456789abcdef", "new-secret-of-paths-0123456789abcdef"}
	callbacks = rotated{"PAYMENTS_SANDBOX_SECRET", "old-secret-of-callbacks-0123456789ab", "new-secret-of-callbacks-0123456789ab"}

	contacts = rotated{"CONTACT_KEYS", contactKey("old"), contactKey("new")}

	allSecrets = []rotated{tokens, internal, paths, callbacks, contacts}
)

func contactKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// TestSecretsAreRotatedUnderLoad rotates every secret while buyers buy and pay and a merchant reads the stock, by the
// procedure of docs/security.md. Each service has two processes, which are restarted one by one, three times:
//
//	old,new   every process verifies both secrets and signs with the old one
//	new,old   every process verifies both secrets and signs with the new one; clients sign with the new one from now on
//	new       when everything that was signed with the old one has been used, and every contact was encrypted with the
//	          new key
//
// The first list comes before new,old because two processes of a service verify what the other one has signed: with
// new,old, the first restarted process would sign with a secret that the others do not verify yet.
//
// No request fails. A request whose connection a restart cuts is repeated once. In the end the old secrets are refused.
func TestSecretsAreRotatedUnderLoad(t *testing.T) {
	r := rig.New(t, rig.Twice())
	internalCalls := shop.RecordCalls(t, r.Inventory.Setting("ORDER_INTERNAL_URL"))
	callbackCalls := shop.RecordCalls(t, r.Client.Origins().Order)
	for _, p := range r.Processes() {
		p.Set("ORDER_INTERNAL_URL", internalCalls.URL)
		p.Set("PAYMENTS_SANDBOX_CALLBACK_URL", callbackCalls.URL+"/v1/payments/callbacks/sandbox")
		for _, s := range allSecrets {
			p.Set(s.variable, s.before)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	r.WithoutFsync(t)
	r.Up(t)
	buyers := shop.NewRecorder(t)
	r.Client = buyers.Client(t, r, tokens.before, 1)
	load := startLoad(ctx, r.Client, shop.Open(t, r, shop.Sale{Stock: 100_000, PayWithinS: 600}),
		shop.Open(t, r, shop.Sale{Stock: 100_000, PayWithinS: 2}))
	defer load.stop()
	began := time.Now()
	early := earlyPath(ctx, t, r.Client, load.paid)

	restartAll(t, r, load, func(s rotated) string { return s.before + "," + s.after })
	restartAll(t, r, load, func(s rotated) string { return s.after + "," + s.before })
	r.Client = buyers.Client(t, r, tokens.after, 1)
	load.switchTo(t, r.Client)
	r.Order.Command(t, "contacts", "reencrypt")
	restartAll(t, r, load, func(s rotated) string { return s.after })
	paid, lapsed := load.stop()
	require.NoError(t, load.failed(), "a purchase failed")

	for name, calls := range map[string]*shop.Recorder{
		"clients": buyers, "internal": internalCalls.Recorder, "callbacks": callbackCalls.Recorder,
	} {
		t.Logf("%s: %s", name, calls)
		require.Empty(t, calls.Failures(), "failed requests of %s", name)
	}
	t.Logf("%d purchases paid and %d expired in %s", paid, lapsed, time.Since(began).Round(time.Second))
	require.Greater(t, paid, 100)
	require.Greater(t, lapsed, 20)
	require.GreaterOrEqual(t, callbackCalls.Count(), paid)
	require.Positive(t, internalCalls.Count())
	require.Len(t, load.contacts, paid)
	for _, g := range load.contacts {
		require.NoError(t, g.check(ctx, r.Client))
	}
	oldSecretsAreRefused(ctx, t, r, load.paid, early)

	load.paid.Merchant = merchantOf(ctx, t, r.Client)
	load.paid.StockBecomes(t, load.paid.Stock-int64(paid), 0, int64(paid), time.Minute)
	load.lapsing.Merchant = load.paid.Merchant
	load.lapsing.StockBecomes(t, load.lapsing.Stock, 0, 0, time.Minute)
	shop.NoDeadLetters(t, r)
	for _, p := range r.Processes() {
		shop.NoIncidents(t, p)
	}
}

// restartAll restarts every process with these values of the secrets, as an upgrade by Helm does: in each service one
// after the other, the services side by side. In between it waits for purchases that begin and end meanwhile, while each
// service has a process with the old and one with the new values.
func restartAll(t *testing.T, r *rig.Rig, load *steadyLoad, value func(rotated) string) {
	t.Helper()
	for i := range r.Services()[0] {
		restarts, ctx := errgroup.WithContext(context.Background())
		for _, processes := range r.Services() {
			p := processes[i]
			for _, s := range allSecrets {
				p.Set(s.variable, value(s))
			}
			restarts.Go(func() error { return p.TryRestart(ctx) })
		}
		require.NoError(t, restarts.Wait())
		load.waitForPurchases(t, 12)
	}
}

// earlyPath returns a path that the old secret has signed, and its buyer.
func earlyPath(ctx context.Context, t *testing.T, c *client.Client, sale shop.Sale) string {
	t.Helper()
	token, err := c.Token(ctx, "early-bird")
	require.NoError(t, err)
	path, err := c.As(token).NewPath(ctx, sale.ActivityID)
	require.NoError(t, err)
	return path.Path
}

// oldSecretsAreRefused requires that every process refuses what an old secret has signed.
func oldSecretsAreRefused(ctx context.Context, t *testing.T, r *rig.Rig, sale shop.Sale, earlyPath string) {
	t.Helper()
	direct := func(p *rig.Process, secret string) *client.Client {
		c := client.New(client.Single(p.URL), client.Options{Secret: secret, Attempts: 1})
		t.Cleanup(c.Close)
		return c
	}
	const unknown = "404"
	// One call to each service.
	read := []func(*client.Caller) error{
		func(c *client.Caller) error { _, err := c.Reservation(ctx, sale.ActivityID, unknown); return err },
		func(c *client.Caller) error { _, err := c.Order(ctx, unknown); return err },
		func(c *client.Caller) error { _, err := c.OwnActivity(ctx, unknown); return err },
	}
	for i, processes := range r.Services() {
		for _, p := range processes {
			err := read[i](merchantOf(ctx, t, direct(p, tokens.before)))
			require.Equal(t, contract.CodeUnauthenticated, client.CodeOf(err), p.Name)
			err = read[i](merchantOf(ctx, t, direct(p, tokens.after)))
			require.Equal(t, contract.CodeNotFound, client.CodeOf(err), p.Name)
		}
	}
	for _, p := range r.Services()[0] {
		c := direct(p, tokens.after)
		token, err := c.Token(ctx, "early-bird")
		require.NoError(t, err)
		_, err = c.As(token).Reserve(ctx, sale.ActivityID, earlyPath, sale.Lines())
		require.Equal(t, contract.CodePathInvalid, client.CodeOf(err), p.Name)
	}
	body := []byte(`{}`)
	for _, p := range r.Services()[1] {
		closing := "http://" + p.Setting("INTERNAL_ADDR") + "/internal/v1/orders:close"
		require.Equal(t, http.StatusUnauthorized, post(ctx, t, closing, "Authorization", "Bearer "+internal.before, body))
		require.Equal(t, http.StatusBadRequest, post(ctx, t, closing, "Authorization", "Bearer "+internal.after, body))
		callback := p.URL + "/v1/payments/callbacks/sandbox"
		require.Equal(t, http.StatusUnauthorized, post(ctx, t, callback, "Payment-Signature", sign(callbacks.before, body), body))
		require.Equal(t, http.StatusBadRequest, post(ctx, t, callback, "Payment-Signature", sign(callbacks.after, body), body))
	}
}

// sign returns the signature of a callback.
func sign(secret string, body []byte) string {
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%s.%s", at, body)
	return "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// post returns the status of the response.
func post(ctx context.Context, t *testing.T, url, header, value string, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(header, value)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// merchantOf returns a caller with the token of a merchant, signed with the secret of c.
func merchantOf(ctx context.Context, t *testing.T, c *client.Client) *client.Caller {
	t.Helper()
	token, err := c.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	return c.As(token)
}

// lapse buys one unit, does not pay, and waits until the order is closed.
func lapse(ctx context.Context, c *client.Client, sale shop.Sale, userID string) error {
	token, err := c.Token(ctx, userID)
	if err != nil {
		return err
	}
	buyer := c.As(token)
	a := purchase.Buy(ctx, buyer, userID, sale.ActivityID, sale.Lines())
	if a.Outcome != purchase.Accepted {
		return fmt.Errorf("%s: %w", a.Outcome, a.Err)
	}
	_, err = purchase.Await(ctx, func(ctx context.Context) (client.Reservation, error) {
		return buyer.Reservation(ctx, sale.ActivityID, a.OrderSN)
	}, func(v client.Reservation) bool { return v.Status == client.Closed })
	if err != nil {
		return fmt.Errorf("order %s was never closed: %w", a.OrderSN, err)
	}
	return nil
}
