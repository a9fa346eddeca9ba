package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Options are the options of a Client. The zero value is usable.
type Options struct {
	Timeout     time.Duration // of one attempt; 0 means 10 s
	Connections int           // bound of the connections to one origin; 0 means 256
	Attempts    int           // of a call that may be retried; 0 means 8, 1 means no retries
	Secret      string        // signs tokens; "" means that the services issue development tokens
	Audience    string        // of signed tokens; "" means none
	Issuer      string        // of signed tokens; "" means none

	Transport http.RoundTripper // carries the calls; nil means a pool of Connections
}

// Client calls the services for any number of callers.
type Client struct {
	origins Origins
	opts    Options
	http    *http.Client
}

// New returns a client. It makes no call.
func New(o Origins, opts Options) *Client {
	if opts.Timeout <= 0 {
		opts.Timeout = 10 * time.Second
	}
	if opts.Connections <= 0 {
		opts.Connections = 256
	}
	if opts.Attempts <= 0 {
		opts.Attempts = 8
	}
	if opts.Transport == nil {
		opts.Transport = &http.Transport{
			MaxConnsPerHost:     opts.Connections,
			MaxIdleConns:        3 * opts.Connections,
			MaxIdleConnsPerHost: opts.Connections,
			IdleConnTimeout:     30 * time.Second,
		}
	}
	return &Client{origins: o, opts: opts, http: &http.Client{
		Transport:     opts.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Origins returns the addresses of the services.
func (c *Client) Origins() Origins { return c.origins }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Caller makes calls with one token.
type Caller struct {
	*Client
	token string
}

// Token returns the caller's token.
func (c *Caller) Token() string { return c.token }

// As returns a caller with that token; "" means without a token.
func (c *Client) As(token string) *Caller { return &Caller{Client: c, token: token} }

type call struct {
	method string
	url    string
	body   any    // nil means none
	key    string // Idempotency-Key
	accept string
	status *int // set to that of the successful response, unless nil
	// once forbids a retry after a 5xx, a time-out or a broken connection, because the call may have been carried out.
	once bool
}

// do makes a call and decodes a successful response into out, unless out is nil. It retries after 429, 502, 503, 504
// and if there is no response.
func (c *Caller) do(ctx context.Context, in call, out any) error {
	var body []byte
	if in.body != nil {
		var err error
		if body, err = json.Marshal(in.body); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		err := c.attempt(ctx, in, body, out)
		if err == nil {
			return nil
		}
		wait, retry := retryAfter(err, attempt, in.once)
		if !retry || attempt >= c.opts.Attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; before that: %w", ctx.Err(), err)
		case <-time.After(wait):
		}
	}
}

// retryAfter reports whether and after which pause to retry. The pause doubles from 100 ms to 3 s. It is never less
// than the Retry-After of the response. Half of it is random, so that callers that were refused together do not retry
// together.
func retryAfter(err error, attempt int, once bool) (time.Duration, bool) {
	wait := min(100*time.Millisecond<<min(attempt-1, 10), 3*time.Second)
	wait = wait/2 + rand.N(wait/2) //nolint:gosec // no secret depends on it
	p := AsProblem(err)
	if p == nil {
		return wait, !once && !errors.Is(err, context.Canceled)
	}
	wait = max(wait, p.RetryAfter+rand.N(100*time.Millisecond)) //nolint:gosec // no secret depends on it
	switch p.Status {
	case http.StatusTooManyRequests:
		return wait, true
	case http.StatusServiceUnavailable,
		http.StatusBadGateway, http.StatusGatewayTimeout: // these two are sent by a reverse proxy
		return wait, !once
	}
	return 0, false
}

func (c *Caller) attempt(ctx context.Context, in call, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, in.method, in.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if in.key != "" {
		req.Header.Set("Idempotency-Key", in.key)
	}
	if in.accept != "" {
		req.Header.Set("Accept", in.accept)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			u.URL = withoutPath(u.URL)
		}
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("%s %s: %w", in.method, withoutPath(in.url), err)
	}
	if resp.StatusCode >= 300 {
		return problemOf(in, resp, raw)
	}
	if in.status != nil {
		*in.status = resp.StatusCode
	}
	switch out := out.(type) {
	case nil:
	case *[]byte:
		*out = raw
	default:
		if err := json.Unmarshal(raw, out); err != nil {
			return fmt.Errorf("%s %s: unexpected response: %w", in.method, withoutPath(in.url), err)
		}
	}
	return nil
}

// withoutPath removes a purchase's path, which is a secret, from a URL.
func withoutPath(u string) string { return secretPath.ReplaceAllString(u, "/paths/{path}") }

var secretPath = regexp.MustCompile(`/paths/[^/]+`)

func problemOf(in call, resp *http.Response, raw []byte) error {
	p := &Problem{}
	if json.Unmarshal(raw, p) != nil || p.Code == "" {
		// The response of a proxy, or of another server.
		p = &Problem{Detail: strings.ToValidUTF8(string(raw[:min(len(raw), 200)]), "?")}
	}
	p.Status = resp.StatusCode
	p.call = in.method + " " + withoutPath(in.url)
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s >= 0 {
		p.RetryAfter = time.Duration(s) * time.Second
	}
	return p
}
