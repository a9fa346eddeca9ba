package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A volley is purchases at a steady rate, whatever the answers, each counted as the edge gave it. A buyer who is told 503
// with Retry-After, or 429, or nothing, comes again with the same call; any other refusal is a failure.
type volley struct {
	*shoppers
	http *http.Client

	mu       sync.Mutex
	answers  map[string]int // by status, and what else there is to tell
	failures []string
	began    time.Time
	sent     int
}

func newVolley(s *shoppers) *volley {
	return &volley{shoppers: s, answers: map[string]int{}, http: &http.Client{
		Timeout:   40 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, IdleConnTimeout: 30 * time.Second},
	}}
}

// call makes one call until it is answered with success.
func (v *volley) call(ctx context.Context, token, url string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, edgeURL+url, bytes.NewReader(raw))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		var text []byte
		resp, err := v.http.Do(req)
		if err == nil {
			text, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if err != nil {
			// The outcome is unknown: the same again.
			v.count(noAnswer)
			select {
			case <-ctx.Done():
				return err
			case <-time.After(time.Second):
			}
			continue
		}
		after, aerr := strconv.Atoi(resp.Header.Get("Retry-After"))
		again := (resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests) && aerr == nil
		v.count(strconv.Itoa(resp.StatusCode) + why(text) + map[bool]string{true: ", with Retry-After"}[again])
		switch {
		case resp.StatusCode < 300:
			return json.Unmarshal(text, into)
		case !again:
			return fmt.Errorf("%d: %s", resp.StatusCode, text)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(max(after, 1)) * time.Second):
		}
	}
}

const noAnswer = "no answer"

// why is what a problem document says besides its status, for the counts.
func why(text []byte) string {
	var problem struct {
		Code             string
		ViolatedPolicies []string `json:"violated_policies"`
	}
	if json.Unmarshal(text, &problem) != nil || problem.Code == "" {
		return ""
	}
	return strings.Join(append([]string{" " + problem.Code}, problem.ViolatedPolicies...), " ")
}

func (v *volley) count(what string) {
	v.mu.Lock()
	v.answers[what]++
	v.mu.Unlock()
}

// told503 is how many answers were 503 with Retry-After.
func (v *volley) told503() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for what, k := range v.answers {
		if strings.HasPrefix(what, "503") && strings.HasSuffix(what, ", with Retry-After") {
			n += k
		}
	}
	return n
}

func (v *volley) one(ctx context.Context, n int) error {
	user := fmt.Sprintf("v%s-%d", v.sale.id, n)
	token, err := v.sale.client.Token(ctx, user)
	if err != nil {
		return err
	}
	b := &bought{user: user, begun: time.Now()}
	var path struct {
		Path    string `json:"path"`
		OrderSN string `json:"order_sn"`
	}
	if err := v.call(ctx, token, "/v1/activities/"+v.sale.id+"/paths", struct{}{}, &path); err != nil {
		return err
	}
	var reservation struct {
		OrderSN string `json:"order_sn"`
	}
	err = v.call(ctx, token, "/v1/activities/"+v.sale.id+"/paths/"+path.Path+"/reservations", map[string]any{"lines": v.sale.lines()}, &reservation)
	if err != nil {
		return err
	}
	if reservation.OrderSN != path.OrderSN {
		return fmt.Errorf("the path was for %s and the answer is for %s", path.OrderSN, reservation.OrderSN)
	}
	b.orderSN, b.accepted = reservation.OrderSN, time.Now()
	v.shoppers.mu.Lock()
	v.bought = append(v.bought, b)
	v.shoppers.mu.Unlock()
	return nil
}

// during keeps firing, rate purchases a second, while what is to be seen happens.
func (v *volley) during(ctx context.Context, t *testing.T, rate float64, what func()) {
	t.Helper()
	v.began = time.Now()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		defer all.Wait()
		// More that wait at a time would only measure this machine.
		room := make(chan struct{}, 2000)
		for n := 0; ; n++ {
			due := v.began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			select {
			case <-stop:
				return
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			room <- struct{}{}
			v.sent++
			all.Go(func() {
				defer func() { <-room }()
				if err := v.one(ctx, n); err != nil {
					v.mu.Lock()
					v.failures = append(v.failures, err.Error())
					v.mu.Unlock()
				}
			})
		}
	}()
	defer func() { <-done }()
	defer close(stop)
	what()
}

// report prints what was answered.
func (v *volley) report(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(v.answers)) {
		fmt.Fprintf(&b, "  %-48s %d\n", what, v.answers[what])
	}
	t.Logf("%d purchases in %s, %.0f a second; answers:\n%s", v.sent, seconds(time.Since(v.began)), float64(v.sent)/time.Since(v.began).Seconds(), b.String())
	for i, f := range v.failures {
		if i < 10 {
			t.Error(f)
		}
	}
	if none := v.answers[noAnswer]; none > 0 {
		t.Errorf("%d calls of %d purchases were left without an answer", none, v.sent)
	}
	if len(v.failures) > 0 {
		t.Errorf("%d purchases failed", len(v.failures))
	}
}
