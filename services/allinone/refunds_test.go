package allinone_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/bus/inproc"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb/dbtest"
	"flashsale.internal/pkg/stockgate"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/inventory"
	orders "flashsale.internal/services/order"
)

// An operator lists, retries and settles the refunds of the order service through inventory.
func TestRefundsThatWait(t *testing.T) {
	t.Parallel()
	tel := telemetry.Discard(t)
	bus := inproc.New(inproc.Options{}, tel.Log)
	t.Cleanup(func() { _ = bus.Close(context.Background()) })
	const tokens, internal = "a secret for tokens of tests, long", "a secret for tests only, of length"
	identity := settings.Auth{Lenient: true, HS256Secrets: []string{tokens}}

	orderDB := dbtest.SQLite(t, orders.Migrations)
	orderService, err := orders.New(orders.Config{
		Auth: identity, Internal: settings.Internal{Secrets: []string{internal}},
		Payments: orders.Payments{Payments: settings.Payments{Providers: []string{settings.Sandbox}}, SandboxSecrets: []string{internal}, SandboxCallbackURL: "http://sandbox.invalid"},
	}, orders.Deps{DB: orderDB, Bus: bus, Telemetry: tel})
	require.NoError(t, err)
	orderServer := httptest.NewServer(orderService.InternalHandler())
	t.Cleanup(orderServer.Close)

	rdb := stockgate.Connect([]string{miniredis.RunT(t).Addr()}, 0)
	t.Cleanup(func() { _ = rdb.Close() })
	products := dbtest.SQLite(t, inventory.Migrations)
	inventoryService, err := inventory.New(inventory.Config{
		Auth: identity, Internal: settings.Internal{Secrets: []string{internal}}, OrderURL: orderServer.URL,
	}, inventory.Deps{DB: products, Redis: rdb, Bus: bus, Telemetry: tel})
	require.NoError(t, err)

	token, err := auth.Mint(tokens, auth.Identity{UserID: "op", Roles: []auth.Role{auth.Operator}}, time.Hour)
	require.NoError(t, err)
	type refund struct {
		ID      string `json:"refund_id"`
		State   string `json:"state"`
		Settled *struct{ By, Reference, Reason string }
	}
	type document struct {
		refund
		Items []refund
		Next  string `json:"next_cursor"`
		Code  string
	}
	call := func(status int, method, path, body string) (doc document) {
		t.Helper()
		r := httptest.NewRequest(method, "/v1/merchant/refunds"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		inventoryService.Handler().ServeHTTP(w, r)
		require.Equal(t, status, w.Code, "%s", w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &doc))
		return doc
	}

	now := time.Now().UTC().Truncate(time.Millisecond)
	for i, provider := range []string{"sandbox", "sandbox", "gone"} {
		require.NoError(t, orderDB.Table("refunds").Create(map[string]any{
			"payment_id": 11 + i, "order_sn": 21 + i, "provider": provider, "amount": 4900, "currency": "EUR", "state": "refund_failed",
			"reason": "order_closed", "attempts": 1, "next_attempt_at": now, "last_error": "account closed", "created_at": now.Add(time.Duration(i) * time.Second),
		}).Error)
	}
	page := call(200, "GET", "?limit=2", "")
	require.Len(t, page.Items, 2)
	require.Equal(t, "11", page.Items[0].ID)
	rest := call(200, "GET", "?cursor="+page.Next, "")
	require.Len(t, rest.Items, 1)
	require.Equal(t, "13", rest.Items[0].ID)
	require.Empty(t, rest.Next)
	require.Equal(t, "invalid_request", call(400, "GET", "?cursor=rubbish", "").Code)

	require.Equal(t, "refund_pending", call(200, "POST", "/11/retry", "{}").State)
	const settlement = `{"reference":"transfer 17","reason":"account closed"}`
	require.Equal(t, "state_conflict", call(409, "POST", "/11/settle", settlement).Code, "it is still attempted")
	for range 2 {
		done := call(200, "POST", "/12/settle", settlement)
		require.Equal(t, "refunded", done.State)
		require.Equal(t, &struct{ By, Reference, Reason string }{"op", "transfer 17", "account closed"}, done.Settled)
	}
	require.Equal(t, "unavailable", call(503, "POST", "/13/retry", "{}").Code, "its provider does not respond")
	require.Equal(t, "not_found", call(404, "POST", "/14/settle", settlement).Code)

	var decisions []string
	require.NoError(t, orderDB.Table("refund_decisions").Order("id").Pluck("action || ' ' || payment_id || ' ' || decided_by", &decisions).Error)
	require.Equal(t, []string{"retry 11 op", "settle 12 op"}, decisions)
	var changes []string
	require.NoError(t, products.Table("changes").Order("id").Pluck("action || ' ' || object_id || ' ' || who", &changes).Error)
	require.Equal(t, []string{
		"refund.retry 11 op", "refund.settle 11 op", "refund.settle 12 op", "refund.settle 12 op", "refund.retry 13 op", "refund.settle 14 op",
	}, changes, "attempts, too")
}
