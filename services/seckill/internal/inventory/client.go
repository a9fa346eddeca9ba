// Package inventory calls inventory's internal listener, for the modes of sales and for sales without Redis.
package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/services/seckill/internal/core"
)

const (
	connectWait = 500 * time.Millisecond
	idleConns   = 16
	maxResponse = 2 << 20  // bytes
	maxModes    = 64 << 20 // bytes of the modes, which have the descriptions of all redisless sales
)

// Client calls inventory. Each call is bounded by its context.
type Client struct {
	base    string
	secrets []string
	http    *http.Client
}

// New returns a client of the internal listener at the URL base. A nil transport means one of its own.
func New(base string, secrets []string, transport http.RoundTripper) *Client {
	if transport == nil {
		transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: connectWait}).DialContext,
			MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout:     time.Minute,
		}
	}
	return &Client{base: strings.TrimSuffix(base, "/"), secrets: secrets, http: &http.Client{
		Transport: transport,
		// A redirect is not followed: the secret must not be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Modes returns the modes of the sales. lost has, by activity, for how long its gate did not respond.
func (c *Client) Modes(ctx context.Context, lost map[string]time.Duration) (contract.Modes, error) {
	query := url.Values{}
	for id, d := range lost {
		query.Add(contract.LostParam, id+":"+strconv.FormatInt(d.Milliseconds(), 10))
	}
	path := contract.ModesPath
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var modes contract.Modes
	return modes, c.call(ctx, http.MethodGet, path, maxModes, nil, &modes)
}

// Reserve decides purchases by the ledger. After an error the outcome is unknown.
func (c *Client) Reserve(ctx context.Context, r contract.RedislessReserve) ([]contract.RedislessResult, error) {
	var out contract.RedislessResults
	if err := c.call(ctx, http.MethodPost, contract.ReservePath, maxResponse, r, &out); err != nil {
		return nil, err
	}
	if len(out.Results) != len(r.Items) {
		return nil, fmt.Errorf("%w: inventory: %d results for %d purchases", core.ErrUnavailable, len(out.Results), len(r.Items))
	}
	return out.Results, nil
}

// Lookup returns the purchases that the ledger has.
func (c *Client) Lookup(ctx context.Context, l contract.RedislessLookup) ([]contract.LedgerState, error) {
	var out contract.RedislessStates
	return out.Purchases, c.call(ctx, http.MethodPost, contract.LookupPath, maxResponse, l, &out)
}

// Workers keeps the leases of worker ids at inventory. It implements ordersn.Registry.
type Workers struct {
	*Client
	// Holders, if set, is called with the number of processes that hold such an id.
	Holders func(n int)
}

var _ ordersn.Registry = Workers{}

// Acquire implements ordersn.Registry.
func (w Workers) Acquire(
	ctx context.Context, owner string, seen int64,
) (worker int, from, high, now int64, err error) {
	l, err := w.lease(ctx, contract.WorkerLease{Owner: owner, Seen: seen})
	return l.Worker, l.From, l.High, l.Now, err
}

// Renew implements ordersn.Registry.
func (w Workers) Renew(ctx context.Context, owner string, worker int) (high, now int64, err error) {
	l, err := w.lease(ctx, contract.WorkerLease{Owner: owner, Worker: worker, Renew: true})
	return l.High, l.Now, err
}

func (w Workers) lease(ctx context.Context, r contract.WorkerLease) (l contract.LeasedWorker, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err = w.call(ctx, http.MethodPost, contract.LeasePath, maxResponse, r, &l); err == nil && w.Holders != nil {
		w.Holders(l.Holders)
	}
	return l, err
}

// call makes one call and decodes its response of at most so many bytes. All errors are core.ErrUnavailable; that of a
// call which inventory cannot carry out is core.ErrRefused, too.
func (c *Client) call(
	ctx context.Context, method, path string, most int64, request, response any,
) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	var raw []byte
	status := 0
	err := auth.TrySecrets(c.secrets, func(secret string) (int, error) {
		req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		auth.SignInternal(req, secret)
		if request != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		res, err := c.http.Do(req)
		if err != nil {
			return 0, err
		}
		defer func() { _ = res.Body.Close() }()
		status = res.StatusCode
		raw, err = io.ReadAll(io.LimitReader(res.Body, most))
		return status, err
	})
	switch {
	case err != nil || status == http.StatusOK:
	case status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge:
		err = fmt.Errorf("%w: status %d", core.ErrRefused, status)
	default:
		err = fmt.Errorf("status %d", status)
	}
	if err == nil {
		err = json.Unmarshal(raw, response)
	}
	if err != nil {
		return fmt.Errorf("%w: inventory: %w", core.ErrUnavailable, err)
	}
	return nil
}
