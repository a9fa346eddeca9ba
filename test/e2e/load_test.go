package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/flashctl/client"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/test/rig"
	"flashsale.internal/test/shop"
)

// purchaseEvery is the interval of the load's purchases.
const purchaseEvery = 80 * time.Millisecond

// load makes whole purchases at a steady rate. One of four is not paid and expires. The buyers of the others give a
// contact. With each purchase the merchant reads the stock.
type load struct {
	paid, lapsing shop.Sale

	cancel context.CancelFunc
	ended  chan struct{}

	mu       sync.Mutex
	client   *client.Client
	group    *sync.WaitGroup // of the purchases that began with client
	done     map[bool]int    // ended purchases, by whether they were paid
	round    int             // calls of waitForPurchases
	fresh    int             // ended purchases that began in this round
	contacts []given
	err      error         // of the first purchase that failed
	next     chan struct{} // closed at the end of the next purchase
}

// given is the contact of an order.
type given struct {
	userID, orderSN string
	contact         client.Contact
}

func startLoad(ctx context.Context, c *client.Client, paid, lapsing shop.Sale) *load {
	starting, cancel := context.WithCancel(ctx)
	l := &load{
		paid: paid, lapsing: lapsing, cancel: cancel, ended: make(chan struct{}), client: c, group: &sync.WaitGroup{},
		done: map[bool]int{}, next: make(chan struct{}),
	}
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(purchaseEvery)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-starting.Done():
				return
			case <-tick.C:
				l.begin(ctx, n)
			}
		}
	}()
	return l
}

func (l *load) begin(ctx context.Context, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, round := l.client, l.round
	l.group.Go(func() {
		pays, user := n%4 != 0, fmt.Sprintf("loaded-%d", n)
		buy, sale := lapse, l.lapsing
		if pays {
			buy, sale = l.buyAndGiveContact, l.paid
		}
		err := errors.Join(buy(ctx, c, sale, user), readStock(ctx, c, sale))
		c.Close() // a new connection may go to the other process
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil && l.err == nil {
			l.err = fmt.Errorf("purchase of %s: %w", user, err)
		}
		l.done[pays]++
		if round == l.round {
			l.fresh++
		}
		close(l.next)
		l.next = make(chan struct{})
	})
}

func (l *load) buyAndGiveContact(ctx context.Context, c *client.Client, sale shop.Sale, userID string) error {
	orderSN, err := shop.BuyOne(ctx, c, sale, userID)
	if err != nil {
		return err
	}
	token, err := c.Token(ctx, userID)
	if err != nil {
		return err
	}
	g := given{userID, orderSN, client.Contact{Name: "Buyer " + userID, Phone: "+8613800138000"}}
	if _, err := c.As(token).PutContact(ctx, orderSN, g.contact); err != nil {
		return err
	}
	l.mu.Lock()
	l.contacts = append(l.contacts, g)
	l.mu.Unlock()
	return g.check(ctx, c)
}

// check reads the contact back.
func (g given) check(ctx context.Context, c *client.Client) error {
	token, err := c.Token(ctx, g.userID)
	if err != nil {
		return err
	}
	got, err := c.As(token).Contact(ctx, g.orderSN)
	if err == nil && (got.Name != g.contact.Name || got.Phone != g.contact.Phone) {
		err = fmt.Errorf("contact of order %s is %+v", g.orderSN, got)
	}
	return err
}

func readStock(ctx context.Context, c *client.Client, sale shop.Sale) error {
	token, err := c.Token(ctx, "merchant-1", auth.Merchant)
	if err != nil {
		return err
	}
	_, err = c.As(token).Stock(ctx, sale.ActivityID)
	return err
}

// waitForPurchases waits for the end of n purchases that begin after its call.
func (l *load) waitForPurchases(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	l.round++
	l.fresh = 0
	l.mu.Unlock()
	for {
		l.mu.Lock()
		ended, next := l.fresh, l.next
		l.mu.Unlock()
		if ended >= n {
			return
		}
		select {
		case <-next:
		case <-time.After(30 * time.Second):
			require.NoError(t, l.failed())
			require.Fail(t, "no purchase has ended for 30 s")
		}
	}
}

// switchTo lets later purchases use c, and waits for the end of the earlier ones.
func (l *load) switchTo(t *testing.T, c *client.Client) {
	t.Helper()
	l.mu.Lock()
	earlier := l.group
	l.client, l.group = c, &sync.WaitGroup{}
	l.mu.Unlock()
	earlier.Wait()
}

// stop begins no more purchases, waits for the end of all, and returns how many were paid and how many were not.
func (l *load) stop() (paid, lapsed int) {
	l.cancel()
	<-l.ended
	l.group.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[true], l.done[false]
}

func (l *load) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// recorder carries requests and records those that fail. It repeats a request once if its connection was cut, over a
// new connection. A request that is sent a third time fails, also if http.Transport repeats it by itself.
type recorder struct {
	mu       sync.Mutex
	next     *connections
	requests int
	repeated int
	failed   []string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{next: newConnections()}
	t.Cleanup(r.CloseIdleConnections)
	return r
}

// connections are closed after the last request in flight: http.Transport may break a request whose connection becomes
// idle while CloseIdleConnections runs.
type connections struct {
	transport *http.Transport
	inFlight  int
	retired   bool
}

func newConnections() *connections {
	return &connections{transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

// acquire returns the connections for a request, which releases them.
func (r *recorder) acquire() *connections {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next.inFlight++
	return r.next
}

func (r *recorder) release(c *connections) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.inFlight--; c.retired && c.inFlight == 0 {
		c.transport.CloseIdleConnections()
	}
}

// CloseIdleConnections is called by http.Client. Later requests use new connections.
func (r *recorder) CloseIdleConnections() {
	r.mu.Lock()
	old := r.next
	old.inFlight++
	old.retired, r.next = true, newConnections()
	r.mu.Unlock()
	r.release(old)
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	var sent atomic.Int64 // times, with those at which the transport repeats a request by itself
	out := req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Add(1) },
	}))
	resp, err := r.send(out, body)
	if err != nil && req.Context().Err() == nil {
		r.CloseIdleConnections() // others may be cut too
		resp, err = r.send(out, body)
	}
	r.record(req.Method+" "+req.URL.Path, resp, err, sent.Load())
	return resp, err
}

// record records the result of a request that was sent so many times.
func (r *recorder) record(what string, resp *http.Response, err error, sent int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if sent > 1 {
		r.repeated++
	}
	switch {
	case err != nil:
		r.failed = append(r.failed, what+": "+err.Error())
	case resp.StatusCode >= http.StatusBadRequest:
		r.failed = append(r.failed, what+": "+resp.Status)
	case sent > 2:
		r.failed = append(r.failed, fmt.Sprintf("%s: sent %d times", what, sent))
	}
}

// send returns a response whose body has arrived.
func (r *recorder) send(req *http.Request, body []byte) (*http.Response, error) {
	conns := r.acquire()
	defer r.release(conns)
	out := req.Clone(req.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		out.Body = nil
	}
	resp, err := conns.transport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(got))
	return resp, err
}

func (r *recorder) failures() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d requests, %d failed, %d repeated after a cut connection", r.requests, len(r.failed), r.repeated)
}

// callers makes clients whose requests are recorded. A client retries nothing, so each failed request counts.
type callers struct{ *recorder }

func newCallers(t *testing.T) callers { return callers{newRecorder(t)} }

func (c callers) client(t *testing.T, r *rig.Rig, secret string) *client.Client {
	t.Helper()
	out := client.New(r.Client.Origins(), client.Options{Secret: secret, Attempts: 1, Transport: c.recorder})
	t.Cleanup(out.Close)
	return out
}

// recordedCalls is a proxy that records the calls between services.
type recordedCalls struct {
	*recorder
	url string
}

// recordCalls starts a proxy to target.
func recordCalls(t *testing.T, target string) recordedCalls {
	t.Helper()
	to, err := url.Parse(strings.TrimRight(target, "/"))
	require.NoError(t, err)
	c := recordedCalls{recorder: newRecorder(t)}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(to) },
		Transport: c.recorder,
	})
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}
