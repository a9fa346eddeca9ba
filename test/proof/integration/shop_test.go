package integration

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/rig/nginx"
	"flashsale.internal/test/shop"
)

func TestMain(m *testing.M) { rig.Main(m) }

const (
	products   = 1000
	calm       = 2_000 // buyers before the first fault
	buyers     = 10_000
	perSecond  = 200
	payWithin  = 60 * time.Second
	downtime   = 5 * time.Minute // of the endpoint
	eventsTake = 3 * time.Second // 99 % of them, while nothing is down
)

// TestAShopFollowsItsOrders imports products, sells, and compares the orders of the shop with those of the ledger: the
// shop follows the feed and, with other books, receives webhooks. Meanwhile its endpoint is down for minutes, order and
// inventory are killed, and the broker is down for a minute.
func TestAShopFollowsItsOrders(t *testing.T) {
	dependencies := rig.OwnDependencies(t, 5500)
	dir := t.TempDir()
	nginx.Certificate(t, dir)
	r := rig.New(t, dependencies.Option(), rig.Env("PATH_RATE", "100000"), rig.Env("WEBHOOK_NETWORKS", "127.0.0.0/8"),
		rig.Env("WEBHOOK_KEYS", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))),
		rig.Env("SSL_CERT_FILE", filepath.Join(dir, "tls.crt")))
	dependencies.Prepare(t, r)
	r.Up(t)
	r.UsePatientClient(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()

	imported(ctx, t, r, dir)
	token, err := r.Client.Token(ctx, "merchant-1", auth.Merchant)
	require.NoError(t, err)
	python := install(ctx, t)
	addr := porttest.Free(t)
	secret := register(ctx, t, r.Inventory.URL, token, "https://"+addr+"/orders")
	env := []string{
		"BASE_URL=" + r.Inventory.URL, "TOKEN=" + token, "CERT=" + filepath.Join(dir, "tls.crt"), "SECRET=" + secret,
		"PORT=" + addr[strings.LastIndex(addr, ":")+1:],
	}
	byFeed := &books{t: t, python: python, env: env, how: "feed", file: filepath.Join(dir, "feed.db")}
	byEvents := &books{t: t, python: python, env: env, how: "webhooks", file: filepath.Join(dir, "webhooks.db")}
	byFeed.start()
	byEvents.start()

	early := shop.Open(t, r, shop.Sale{Stock: calm, PayWithinS: int64(payWithin / time.Second)})
	sell(ctx, t, r, early, calm, nil)
	agree(ctx, t, r, early, 10*time.Minute, byFeed, byEvents)
	before := time.Now().UTC().Format(time.RFC3339)

	late := shop.Open(t, r, shop.Sale{Stock: buyers, PayWithinS: int64(payWithin / time.Second)})
	sell(ctx, t, r, late, buyers, func() {
		pause := func(d time.Duration) { require.NoError(t, shop.Until(ctx, time.Now().Add(d))) }
		pause(10 * time.Second)
		byEvents.stop()
		back := time.Now().Add(downtime)
		for _, p := range []*rig.Process{r.Order, r.Inventory} {
			pause(5 * time.Second)
			p.Kill(t)
			p.Start(t)
		}
		pause(5 * time.Second)
		dependencies.Do(t, "kill", "broker")
		pause(time.Minute)
		dependencies.Do(t, "up", "broker")
		require.NoError(t, shop.Until(ctx, back))
		byEvents.start()
	})
	began := time.Now()
	agree(ctx, t, r, late, 15*time.Minute, byFeed, byEvents)
	t.Logf("the books agree %s after the endpoint was back", time.Since(began).Round(time.Second))

	got := byEvents.report(ctx, before)
	t.Logf("%d events of %d changes, received %d times; calm: %d events, 50 %% within %.2f s, 99 %% within %.2f s; %d passes of the feed",
		got.Events, got.Changes, got.Received, got.Timed, got.P50, got.P99, byFeed.report(ctx, before).Passes)
	require.Zero(t, got.Unverified, "signatures that do not verify")
	require.Equal(t, got.Changes, got.Events, "a change has one id")
	require.Greater(t, got.Timed, calm)
	require.LessOrEqual(t, got.P99, eventsTake.Seconds())
}

// imported imports products from a file, as a merchant does.
func imported(ctx context.Context, t *testing.T, r *rig.Rig, dir string) {
	t.Helper()
	var file strings.Builder
	file.WriteString("product_ref,product_name,sku_ref,sku_name,list_price,currency\n")
	for i := range products {
		fmt.Fprintf(&file, "P-%d,Product %d,P-%d-A,one size,%d.99,EUR\n", i, i, i, i+1)
	}
	name := filepath.Join(dir, "products.csv")
	require.NoError(t, os.WriteFile(name, []byte(file.String()), 0o600))
	began := time.Now()
	_, err := shop.NewFlashctl(t, r).Run(ctx, "products", "import", name)
	require.NoError(t, err)
	t.Logf("%d products imported in %s", products, time.Since(began).Round(time.Second))
	require.EqualValues(t, products, shop.Count(t, r.Dependencies.InventoryDSN, "SELECT COUNT(*) FROM products WHERE ref LIKE 'P-%'"))
}

// install makes an environment of Python with what the shop uses.
func install(ctx context.Context, t *testing.T) (python string) {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin/pip"), "install", "-q", "standardwebhooks==1.1.0", "cloudevents==2.2.0"},
	} {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return filepath.Join(dir, "bin/python")
}

// register adds an endpoint and returns its secret.
func register(ctx context.Context, t *testing.T, base, token, url string) (secret string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"url": url, "types": []string{"order.created", "order.paid", "order.closed", "order.refunded", "order.failed"},
	})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/merchant/webhooks", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode, "%s", text)
	var made struct{ Secret string }
	require.NoError(t, json.Unmarshal(text, &made))
	return made.Secret
}

// sell runs a sale with buyers who arrive at the rate, and the faults meanwhile. Some of the buyers pay.
func sell(ctx context.Context, t *testing.T, r *rig.Rig, sale shop.Sale, count int, faults func()) {
	t.Helper()
	b := &shop.Buyers{Sale: sale, Client: r.Client, Count: count, PerSecond: perSecond, Rand: rand.New(rand.NewPCG(1, 2))}
	failed, wait := b.Start(ctx)
	if faults != nil {
		faults()
	}
	require.NoError(t, context.Cause(failed))
	require.NoError(t, wait())
}

// agree waits until both books have the orders of the sale as the ledger has them.
func agree(ctx context.Context, t *testing.T, r *rig.Rig, sale shop.Sale, within time.Duration, all ...*books) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, b := range all {
		var differs string
		require.NoError(t, shop.Poll(ctx, func() (bool, error) {
			have, n := b.report(ctx, "").Orders, 0
			differs = ""
			shop.Query(t, r.Dependencies.InventoryDSN, "SELECT order_sn, state FROM reservations WHERE activity_id = ?", func(rows *sql.Rows) {
				var sn, state string
				require.NoError(t, rows.Scan(&sn, &state))
				n++
				if got := have[sn]; len(got) == 0 || got[0] != state || state == "reserved" {
					differs = fmt.Sprintf("order %s is %s, and %v in the books", sn, state, got)
				}
			}, sale.ActivityID)
			return differs == "" && n > 0, nil
		}), "%s: %s", b.how, differs)
	}
}

// books is a process of the shop, with what it has written.
type books struct {
	t           *testing.T
	python, how string
	file        string
	env         []string
	cmd         *exec.Cmd
}

func (b *books) start() {
	b.t.Helper()
	b.cmd = exec.Command(b.python, "shop.py", b.how, b.file)
	b.cmd.Env = append(os.Environ(), b.env...)
	b.cmd.Stderr = os.Stderr
	require.NoError(b.t, b.cmd.Start())
	cmd := b.cmd
	b.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

func (b *books) stop() {
	b.t.Helper()
	require.NoError(b.t, b.cmd.Process.Signal(syscall.SIGTERM))
	_ = b.cmd.Wait()
}

type report struct {
	Orders                                               map[string][]string
	Events, Received, Changes, Timed, Unverified, Passes int
	P50, P99                                             float64
}

func (b *books) report(ctx context.Context, before string) (r report) {
	b.t.Helper()
	out, err := exec.CommandContext(ctx, b.python, "shop.py", "report", b.file, before).Output()
	require.NoError(b.t, err)
	require.NoError(b.t, json.Unmarshal(out, &r))
	return r
}
