package stripe_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/services/order/internal/payment/stripe"
)

// recorded counts the successful responses to each endpoint.
type recorded struct {
	mu   sync.Mutex
	seen map[string]bool
}

var ids = regexp.MustCompile(`/(cs|pi)_[^/]*`)

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen[req.Method+" "+ids.ReplaceAllString(req.URL.Path, "/{id}")] = true
	}
	return res, err
}

// stripe-mock, which Stripe makes from its API, checks the names and types of all parameters.
func TestStripeMockAcceptsEachCall(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	made := &recorded{seen: map[string]bool{}}
	mock := startMock(t)
	of := stripe.New(stripe.Config{
		Key: key, WebhookSecrets: []string{secret}, APIURL: mock, PublicURL: "https://shop.example.com",
		Methods: []string{"card", "alipay", "wechat_pay"}, Now: time.Now, Transport: made,
	})
	p := payment(1999, "EUR")
	begun, err := of.Begin(ctx, p, time.Now())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(begun.Reference, "cs_"), begun.Reference)
	p.Reference = begun.Reference
	require.NoError(t, of.Cancel(ctx, p))
	_, _, err = of.FindCharge(ctx, p)
	require.NoError(t, err)
	p.Reference = "pi_1"
	require.NoError(t, of.Refund(ctx, p))
	_, _, err = of.FindRefund(ctx, p)
	require.NoError(t, err)
	p.Reference = ""
	_, _, err = of.FindCharge(ctx, p)
	require.NoError(t, err)
	_, _, err = of.Charges(ctx, time.Now(), "ch_1", 10)
	require.NoError(t, err)
	_, _, err = of.Refunds(ctx, time.Now(), "re_1", 10)
	require.NoError(t, err)

	a := open(t)
	disputed := a.begun(t, 1999, "EUR")
	require.NoError(t, a.Pay(disputed.Reference))
	require.NoError(t, a.Dispute(disputed.Reference))
	e := a.Events("charge.dispute.created")[0]
	_, err = of.Parse(ctx, a.Headers(e, secret, time.Now()), e.Body)
	require.NoError(t, err)

	require.Equal(t, map[string]bool{
		"POST /v1/checkout/sessions": true, "POST /v1/checkout/sessions/{id}/expire": true,
		"GET /v1/checkout/sessions/{id}": true, "GET /v1/payment_intents/{id}": true, "GET /v1/charges": true,
		"POST /v1/refunds": true, "GET /v1/refunds": true,
	}, made.seen)

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, mock+"/v1/refunds", strings.NewReader("amount=much"))
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/x-www-form-urlencoded"}}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusBadRequest, res.StatusCode, "the mock checks")
}

var listening = regexp.MustCompile(`Listening for HTTP at address: (\S+)`)

// startMock starts stripe-mock and returns its URL.
func startMock(t *testing.T) string {
	t.Helper()
	find := exec.CommandContext(t.Context(), "make", "-s", "-C", "../../../../..", "stripe-tools")
	find.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	out, err := find.Output()
	require.NoError(t, err)
	lines := strings.Fields(string(out))

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	mock := exec.CommandContext(ctx, lines[len(lines)-1], "-http-addr", "127.0.0.1:0", "-https-addr", "127.0.0.1:0")
	logs, err := mock.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, mock.Start())
	var drained sync.WaitGroup
	t.Cleanup(func() {
		stop()
		drained.Wait()
		_ = mock.Wait() // killed
	})
	for scan := bufio.NewScanner(logs); scan.Scan(); {
		if at := listening.FindStringSubmatch(scan.Text()); at != nil {
			drained.Go(func() { _, _ = io.Copy(io.Discard, logs) })
			return "http://" + at[1]
		}
	}
	require.FailNow(t, "stripe-mock did not start")
	return ""
}
