package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/test/cluster/installation"
)

// span is a span as Jaeger returns it.
type span struct {
	id, parent, service, name string
	start, took               time.Duration // start counts from the beginning of the trace
}

// traceOf reads a trace from Jaeger's API.
func traceOf(ctx context.Context, id string) ([]span, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, installation.JaegerURL+"/api/traces/"+id, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("jaeger responds %d: %s: %w", resp.StatusCode, raw, err)
	}
	var response struct {
		Data []struct {
			Spans []struct {
				SpanID, OperationName, ProcessID string
				StartTime, Duration              int64 // microseconds
				References                       []struct{ RefType, SpanID string }
			}
			Processes map[string]struct{ ServiceName string }
		}
	}
	if err := json.Unmarshal(raw, &response); err != nil {
		return nil, err
	}
	var all []span
	for _, trace := range response.Data {
		for _, s := range trace.Spans {
			one := span{
				id: s.SpanID, service: trace.Processes[s.ProcessID].ServiceName, name: s.OperationName,
				start: time.Duration(s.StartTime) * time.Microsecond, took: time.Duration(s.Duration) * time.Microsecond,
			}
			for _, r := range s.References {
				if r.RefType == "CHILD_OF" && one.parent == "" {
					one.parent = r.SpanID
				}
			}
			all = append(all, one)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].start < all[j].start })
	for i := len(all) - 1; i >= 0; i-- {
		all[i].start -= all[0].start
	}
	return all, nil
}

// One purchase, from the edge to the result, is one connected trace in Jaeger.
func TestOnePurchaseIsOneTrace(t *testing.T) {
	c := installation.Client(t, client.Options{})
	s := installation.OpenSale(t, c, 5)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	token, err := c.Token(ctx, "traced-buyer")
	require.NoError(t, err)
	path, err := c.As(token).NewPath(ctx, s.ID)
	require.NoError(t, err)
	traceID, rootID := randomHex(16), randomHex(8)
	traced := func(method, url, body string, into any) int {
		req, err := http.NewRequestWithContext(ctx, method, installation.EdgeURL+url, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("traceparent", "00-"+traceID+"-"+rootID+"-01")
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.NoError(t, json.NewDecoder(resp.Body).Decode(into))
		if resp.StatusCode != http.StatusServiceUnavailable { // the edge makes that response itself
			require.Contains(t, resp.Header.Get("traceparent"), traceID, "the response has the ID of the trace")
		}
		return resp.StatusCode
	}
	var accepted struct {
		OrderSN   string `json:"order_sn"`
		ResultURL string `json:"result_url"`
	}
	status := 0
	installation.Eventually(t, time.Minute, 200*time.Millisecond, "a response", func() bool { // a path never buys twice
		url := "/v1/activities/" + s.ID + "/paths/" + path.Path + "/reservations"
		status = traced(http.MethodPost, url, `{"lines":[{"sku_id":"`+s.SKU+`","qty":1}]}`, &accepted)
		return status != http.StatusServiceUnavailable
	})
	require.Equal(t, http.StatusAccepted, status)
	installation.Eventually(t, time.Minute, 200*time.Millisecond, "the order", func() bool {
		var result struct{ Status string }
		return traced(http.MethodGet, accepted.ResultURL, "", &result) == http.StatusOK && result.Status == "created"
	})

	// steps lists spans in the order of the purchase: each must descend from the one before.
	steps := []string{
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
	var spans []span
	complete := func() bool {
		spans, err = traceOf(ctx, traceID)
		return err == nil && len(orphans(spans, rootID)) == 0 && descends(spans, rootID, steps) &&
			has(spans, "inventory: ledger transaction") && has(spans, "order: orders transaction") &&
			has(spans, "seckill: GET /v1/activities/{activity_id}/reservations/{order_sn}")
	}
	for end := time.Now().Add(time.Minute); !complete(); time.Sleep(500 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the trace is not complete (%v), orphans: %v\n%s", err, orphans(spans, rootID),
				tree(spans, rootID))
		}
	}
	t.Logf("the trace of one purchase:\n%s", tree(spans, rootID))
}

func (s span) String() string { return s.service + ": " + s.name }

func has(spans []span, what string) bool {
	for _, s := range spans {
		if s.String() == what {
			return true
		}
	}
	return false
}

// orphans returns the spans whose parent is neither in the trace nor the caller.
func orphans(spans []span, root string) (found []span) {
	known := map[string]bool{root: true}
	for _, s := range spans {
		known[s.id] = true
	}
	for _, s := range spans {
		if !known[s.parent] {
			found = append(found, s)
		}
	}
	return found
}

// descends reports whether the named spans descend from each other in this order, with or without others in between.
func descends(spans []span, parent string, names []string) bool {
	if len(names) == 0 {
		return true
	}
	for _, s := range spans {
		if s.parent != parent {
			continue
		}
		rest := names
		if s.String() == names[0] {
			rest = names[1:]
		}
		if descends(spans, s.id, rest) {
			return true
		}
	}
	return false
}

// tree formats the spans, indented by depth. Siblings of one name are counted.
func tree(spans []span, root string) string {
	var b strings.Builder
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		seen := map[string]int{}
		for _, s := range spans {
			if s.parent == parent {
				seen[s.String()]++
			}
		}
		for _, s := range spans {
			n := seen[s.String()]
			if s.parent != parent || n == 0 {
				continue
			}
			times := ""
			if n > 1 {
				times = fmt.Sprintf(" (%d times)", n)
			}
			seen[s.String()] = 0
			fmt.Fprintf(&b, "%7.1f ms %7.1f ms  %s%s%s\n", ms(s.start), ms(s.took), indent, s, times)
			walk(s.id, indent+"  ")
		}
	}
	walk(root, "")
	return b.String()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
