package installation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
)

// A Load makes purchases at a steady rate, whatever the responses are, and counts the responses of the edge. A buyer
// repeats a call that got no response, or 503 or 429 with Retry-After. Any other refusal is a failure.
type Load struct {
	*Buyers

	http *http.Client

	mu        sync.Mutex
	responses map[string]int // by status, problem code and Retry-After
	failures  []string
	began     time.Time
	sent      int
}

// NewLoad opens a sale of so many units for the load.
func NewLoad(t *testing.T, units int64) *Load {
	t.Helper()
	sale := OpenSale(t, Client(t, client.Options{Attempts: 60}), units)
	return &Load{Buyers: NewBuyers(sale), responses: map[string]int{}, http: &http.Client{
		Timeout:   40 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 30 * time.Second},
	}}
}

// Rate returns the purchases a second of a load during changes: RATE, 200 without it.
func Rate(t *testing.T) float64 {
	t.Helper()
	text := os.Getenv("RATE")
	if text == "" {
		return 200
	}
	r, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return r
}

// Sale returns the load's sale.
func (l *Load) Sale() *Sale { return l.sale }

// call repeats one call until it succeeds or is refused for good.
func (l *Load) call(ctx context.Context, token, url string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, EdgeURL+url, bytes.NewReader(raw))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		var text []byte
		resp, err := l.http.Do(req)
		if err == nil {
			text, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if err != nil {
			// The outcome is unknown: repeat the call.
			l.count(noResponse)
			select {
			case <-ctx.Done():
				return err
			case <-time.After(time.Second):
			}
			continue
		}
		after, errAfter := strconv.Atoi(resp.Header.Get("Retry-After"))
		later := resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests
		retry := later && errAfter == nil
		l.count(strconv.Itoa(resp.StatusCode) + reason(text) + map[bool]string{true: withRetryAfter}[retry])
		switch {
		case resp.StatusCode < 300:
			return json.Unmarshal(text, into)
		case !retry:
			return fmt.Errorf("%d: %s", resp.StatusCode, text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(max(after, 1)) * time.Second):
		}
	}
}

const (
	noResponse     = "no response"
	withRetryAfter = ", with Retry-After"
)

// reason returns the code and the violated policies of a problem document, for the counts.
func reason(text []byte) string {
	var problem struct {
		Code             string
		ViolatedPolicies []string `json:"violated_policies"`
	}
	if json.Unmarshal(text, &problem) != nil || problem.Code == "" {
		return ""
	}
	return strings.Join(append([]string{" " + problem.Code}, problem.ViolatedPolicies...), " ")
}

func (l *Load) count(response string) {
	l.mu.Lock()
	l.responses[response]++
	l.mu.Unlock()
}

// Unavailable returns the number of responses 503 with Retry-After.
func (l *Load) Unavailable() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for response, k := range l.responses {
		if strings.HasPrefix(response, "503") && strings.HasSuffix(response, withRetryAfter) {
			n += k
		}
	}
	return n
}

// buyOnce makes the n-th purchase and does not wait for its order.
func (l *Load) buyOnce(ctx context.Context, n int) error {
	user := fmt.Sprintf("v%s-%d", l.sale.ID, n)
	token, err := l.sale.client.Token(ctx, user)
	if err != nil {
		return err
	}
	a := &acceptance{user: user, begun: time.Now()}
	var path struct {
		Path    string `json:"path"`
		OrderSN string `json:"order_sn"`
	}
	if err := l.call(ctx, token, "/v1/activities/"+l.sale.ID+"/paths", struct{}{}, &path); err != nil {
		return err
	}
	var reservation struct {
		OrderSN string `json:"order_sn"`
	}
	url := "/v1/activities/" + l.sale.ID + "/paths/" + path.Path + "/reservations"
	err = l.call(ctx, token, url, map[string]any{"lines": l.sale.lines()}, &reservation)
	if err != nil {
		return err
	}
	if reservation.OrderSN != path.OrderSN {
		return fmt.Errorf("the path is for %s and the reservation for %s", path.OrderSN, reservation.OrderSN)
	}
	a.orderSN, a.accepted = reservation.OrderSN, time.Now()
	l.add(a)
	return nil
}

// During makes rate purchases a second while change runs, and returns when all of them have ended.
func (l *Load) During(ctx context.Context, rate float64, change func()) {
	l.began = time.Now()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		defer all.Wait()
		// More calls in flight would only measure the load of this machine.
		room := make(chan struct{}, 2000)
		for n := 0; ; n++ {
			due := l.began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			room <- struct{}{}
			l.sent++
			all.Go(func() {
				defer func() { <-room }()
				if err := l.buyOnce(ctx, n); err != nil {
					l.mu.Lock()
					l.failures = append(l.failures, err.Error())
					l.mu.Unlock()
				}
			})
		}
	}()
	defer func() { <-done }()
	defer close(stop)
	change()
}

// Verify fails the test if a purchase failed or a call got no response, if the ledger and the gate do not match the
// responses, or if a container was killed for its memory. It logs the number of each response.
func (l *Load) Verify(t *testing.T) {
	t.Helper()
	l.report(t)
	l.Compare(t)
	NoOOMKills(t)
}

func (l *Load) report(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, response := range slices.Sorted(maps.Keys(l.responses)) {
		fmt.Fprintf(&b, "  %-48s %d\n", response, l.responses[response])
	}
	took := time.Since(l.began)
	rate := float64(l.sent) / took.Seconds()
	t.Logf("%d purchases in %s, %.0f a second; responses:\n%s", l.sent, Seconds(took), rate, b.String())
	for i, f := range l.failures {
		if i < 10 {
			t.Error(f)
		}
	}
	if n := l.responses[noResponse]; n > 0 {
		t.Errorf("%d calls of %d purchases got no response", n, l.sent)
	}
	if len(l.failures) > 0 {
		t.Errorf("%d purchases failed", len(l.failures))
	}
}
