package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// onePurchaseIsOneTrace follows a purchase from the POST through the gate, the topics and both databases to the
// result. Every span
// has its parent in the trace, and messages carry the trace from service to service.
func onePurchaseIsOneTrace(t *testing.T, r *rig.Rig, spans *rig.Spans) {
	const within = 90 * time.Second // for each result
	sale := shop.Open(t, r, shop.Sale{Stock: 5, PayWithinS: 600})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	token, err := r.Client.Token(ctx, "traced-buyer")
	require.NoError(t, err)
	path, err := r.Client.As(token).NewPath(ctx, sale.ActivityID)
	require.NoError(t, err)

	// The buyer's client is the root of the trace.
	traceID, rootID := randomHex(16), randomHex(8)
	traced := func(method, url, body string, into any) int {
		req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("traceparent", "00-"+traceID+"-"+rootID+"-01")
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		if into != nil {
			require.NoError(t, json.NewDecoder(bytes.NewReader(raw)).Decode(into), "%s", raw)
		}
		require.Contains(t, resp.Header.Get("traceparent"), traceID, "the response names the trace")
		return resp.StatusCode
	}
	var accepted struct {
		OrderSN   string `json:"order_sn"`
		ResultURL string `json:"result_url"`
	}
	reserve := r.Seckill.URL + "/v1/activities/" + sale.ActivityID + "/paths/" + path.Path + "/reservations"
	status := 0
	require.Eventually(t, func() bool { // a repeated path never buys twice
		status = traced(http.MethodPost, reserve, `{"lines":[{"sku_id":"`+sale.SKUID+`","qty":1}]}`, &accepted)
		return status != http.StatusServiceUnavailable
	}, within, 100*time.Millisecond)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, path.OrderSN, accepted.OrderSN)
	require.Eventually(t, func() bool {
		var result struct {
			Status string `json:"status"`
		}
		return traced(http.MethodGet, r.Seckill.URL+accepted.ResultURL, "", &result) == http.StatusOK &&
			result.Status == "created"
	}, within, 100*time.Millisecond, "the order was never created")

	// chain lists spans, "service: name", each of which must descend from the one before it.
	chain := []string{
		"seckill: POST /v1/activities/{activity_id}/paths/{path}/reservations",
		"seckill: gate reserve",
		"seckill: publish seckill-reservations",
		"inventory: process seckill-reservations",
		"inventory: publish inventory-deductions",
		"order: process inventory-deductions",
		"order: publish order-events",
		"inventory: process order-events",
		"inventory: gate settle",
	}
	var got []rig.Span
	complete := func() bool {
		got = spans.Trace(traceID)
		_, orphans := rig.Edges(got, rootID)
		return len(orphans) == 0 && descends(got, rootID, chain) &&
			has(got, "inventory: ledger transaction") && has(got, "order: orders transaction") &&
			has(got, "seckill: GET /v1/activities/{activity_id}/reservations/{order_sn}") &&
			has(got, "order: publish order-close")
	}
	if !waitFor(complete, within) {
		edges, orphans := rig.Edges(got, rootID)
		t.Fatalf("the trace is incomplete.\ntree:\n%s\nedges:\n%s\norphans: %v", rig.Print(got, rootID),
			strings.Join(edges, "\n"), orphans)
	}
	t.Logf("the trace of one purchase:\n%s", rig.Print(got, rootID))
	for _, span := range got {
		for key, value := range span.Attributes {
			require.NotContains(t, value, path.Path, "the path is a secret and is in %s of %s", key, span.Name)
			require.NotContains(t, value, token, "a token is in %s of %s", key, span.Name)
		}
	}
	for _, p := range r.Processes() {
		require.NotContains(t, p.Log(t), path.Path, "the path is a secret and is in the log of %s", p.Name)
		require.NotContains(t, p.Log(t), token, "a token is in the log of %s", p.Name)
	}
}

func has(spans []rig.Span, what string) bool {
	for _, s := range spans {
		if s.Service+": "+s.Name == what {
			return true
		}
	}
	return false
}

// descends reports whether each named span descends from the one before it, directly or through others.
func descends(spans []rig.Span, root string, names []string) bool {
	children := map[string][]rig.Span{}
	for _, s := range spans {
		children[s.Parent] = append(children[s.Parent], s)
	}
	var walk func(parent string, names []string) bool
	walk = func(parent string, names []string) bool {
		if len(names) == 0 {
			return true
		}
		for _, s := range children[parent] {
			rest := names
			if s.Service+": "+s.Name == names[0] {
				rest = names[1:]
			}
			if walk(s.ID, rest) {
				return true
			}
		}
		return false
	}
	return walk(root, names)
}

func waitFor(done func() bool, within time.Duration) bool {
	for end := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
