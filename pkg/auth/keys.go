package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"

	"flashsale.internal/pkg/lifecycle"
)

const (
	fetchTimeout = 5 * time.Second
	refreshEvery = 5 * time.Minute  // and at most a tenth more
	retryFrom    = time.Second      // after a failed fetch, doubling up to retryUpTo
	retryUpTo    = time.Minute      //
	minInterval  = 10 * time.Second // between fetches by callers, for an unknown key id or without keys
	maxKeySet    = 1 << 20          // bytes
	maxRedirects = 3
)

// errNoKeys reports that no key set has been fetched yet.
var errNoKeys = errors.New("no keys to check tokens with")

// keySet holds the keys published at a URL. The last fetched keys stay in use while the URL is unavailable: an outage
// of the provider must not stop a sale. While the URL responds, a withdrawn key is out of use after the next fetch, as
// a change of the keys also clears the cache of tokens. The documented bound is 10 min, which leaves room for failed
// fetches and their repetition.
type keySet struct {
	url     string
	client  *http.Client
	flight  singleflight.Group
	changed func() // called after a fetch returned other keys; may be nil

	mu       sync.RWMutex
	keys     []jose.JSONWebKey // nil until the first success
	fetched  time.Time         // when the last fetch began
	fetching bool              // a fetch is in flight
}

func newKeySet(url string, client *http.Client) *keySet {
	if client == nil {
		client = &http.Client{Timeout: fetchTimeout}
	}
	guarded := *client
	guarded.CheckRedirect = checkRedirect
	return &keySet{url: url, client: &guarded}
}

// CheckKeys reports why the keys published at a URL cannot be used.
func CheckKeys(ctx context.Context, url string) error { return newKeySet(url, nil).fetch(ctx) }

// checkRedirect follows a few redirects, and none from https to http: on the way, another server could put its own keys
// into the response.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return errors.New("redirect from https to http")
	}
	return nil
}

// find returns the key that signed t.
func (s *keySet) find(ctx context.Context, t *jwt.Token) (any, error) {
	key, err := s.lookup(t)
	if err == nil {
		return key, nil
	}
	// The key may be new.
	done := s.join(ctx)
	if done == nil {
		return s.lookup(t) // a fetch may have ended since the first lookup
	}
	select {
	case <-done:
		return s.lookup(t)
	case <-ctx.Done():
		return nil, errors.Join(errNoKeys, ctx.Err())
	}
}

// join returns the result of the fetch in flight. Without one it starts a fetch, or returns nil if the last one began
// less than minInterval ago.
func (s *keySet) join(ctx context.Context) <-chan singleflight.Result {
	// While the lock is held, a fetch in flight does not end and a new one does not begin.
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.fetching && time.Since(s.fetched) < minInterval {
		return nil
	}
	return s.flight.DoChan("fetch", func() (any, error) {
		return nil, s.fetch(context.WithoutCancel(ctx)) // has its own time-out; other callers may wait for it
	})
}

func (s *keySet) lookup(t *jwt.Token) (any, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.keys == nil {
		return nil, errNoKeys
	}
	kid, _ := t.Header["kid"].(string)
	alg := t.Method.Alg()
	var fits []any
	for _, k := range s.keys {
		if kid != "" && k.KeyID != kid || k.Use != "" && k.Use != "sig" ||
			k.Algorithm != "" && k.Algorithm != alg || !k.IsPublic() {
			continue
		}
		fits = append(fits, k.Key)
	}
	// A token without a key id is accepted only if exactly one key fits.
	if len(fits) != 1 {
		return nil, fmt.Errorf("%d keys fit the token", len(fits))
	}
	return fits[0], nil
}

func (s *keySet) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	s.mu.Lock()
	s.fetched, s.fetching = time.Now(), true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.fetching = false
		s.mu.Unlock()
	}()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("key set: status %d", resp.StatusCode)
	case len(body) > maxKeySet:
		return fmt.Errorf("key set: more than %d bytes", maxKeySet)
	}
	keys, err := readKeys(body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	other := !sameKeys(s.keys, keys)
	s.keys = keys
	s.mu.Unlock()
	if other && s.changed != nil {
		s.changed()
	}
	return nil
}

// sameKeys reports whether two sets hold the same keys in the same order. It returns false for keys that it cannot
// compare.
func sameKeys(a, b []jose.JSONWebKey) bool {
	return slices.EqualFunc(a, b, func(x, y jose.JSONWebKey) bool {
		left, err := x.MarshalJSON()
		right, other := y.MarshalJSON()
		return err == nil && other == nil && bytes.Equal(left, right)
	})
}

// readKeys parses a key set. It ignores keys of unknown types, as RFC 7517 requires.
func readKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("key set: no usable keys in it")
	}
	return keys, nil
}

// keepFresh fetches the keys periodically until ctx is done. It retries failures without an end.
func (s *keySet) keepFresh(ctx context.Context, log *slog.Logger) error {
	wait := retryFrom
	var failures lifecycle.Failures
	for {
		_, err, _ := s.flight.Do("fetch", func() (any, error) { return nil, s.fetch(ctx) })
		if ctx.Err() != nil {
			return nil
		}
		failures.Observe(ctx, log, "fetch of token keys", err)
		next := refreshEvery
		if err != nil {
			next, wait = wait, min(2*wait, retryUpTo)
		} else {
			wait = retryFrom
		}
		timer := time.NewTimer(next - next/10 + rand.N(next/5+1)) //nolint:gosec // jitter, no secret
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}
