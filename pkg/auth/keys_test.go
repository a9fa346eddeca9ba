package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

// published is a provider without a network. A fetch takes some time, and fails while down is set.
type published struct {
	set     atomic.Pointer[[]byte]
	down    atomic.Bool
	fetches atomic.Int32
}

func (p *published) publish(t *testing.T, keys ...jose.JSONWebKey) {
	t.Helper()
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	p.set.Store(&body)
}

func (p *published) RoundTrip(*http.Request) (*http.Response, error) {
	p.fetches.Add(1)
	body := *p.set.Load()
	time.Sleep(fetchTimeout * 9 / 10) // a slow provider; the set is that of the beginning
	if p.down.Load() {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// During each of many hours a key is withdrawn at some time, with failed fetches before it, while a buyer sends a token
// of that key each second, so that the token is always in the cache.
func TestAWithdrawnKeyIsRefusedWithinTenMinutes(t *testing.T) {
	kept, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	both := []jose.JSONWebKey{jwk(&kept.PublicKey, "kept", ""), jwk(&old.PublicKey, "old", "")}
	var longest time.Duration
	synctest.Test(t, func(t *testing.T) {
		var idp published
		idp.publish(t, both...)
		v, err := NewVerifier(settings.Auth{Lenient: true, JWKSURL: "https://idp.example/keys"}, &http.Client{Transport: &idp})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.Component(slog.New(slog.DiscardHandler)).Run(ctx) }()
		time.Sleep(fetchTimeout)
		for range 60 {
			idp.publish(t, both...)
			time.Sleep(refreshEvery*11/10 + fetchTimeout) // until the keys were fetched
			idp.down.Store(true)
			time.Sleep(mathrand.N(10 * time.Minute))
			idp.down.Store(false)
			token := sign(t, jwt.SigningMethodRS256, old, "old", good("exp", time.Now().Add(time.Hour).Unix()))
			_, err := v.Verify(ctx, token)
			require.NoError(t, err, "the key is still published, or the provider was down")

			idp.publish(t, both[0])
			withdrawn := time.Now()
			for err == nil {
				time.Sleep(time.Second)
				_, err = v.Verify(ctx, token)
			}
			longest = max(longest, time.Since(withdrawn))
			require.Less(t, time.Since(withdrawn), 10*time.Minute)
			_, err = v.Verify(ctx, sign(t, jwt.SigningMethodRS256, kept, "kept", good("exp", time.Now().Add(time.Hour).Unix())))
			require.NoError(t, err)
		}
		cancel()
		require.NoError(t, <-ended)
	})
	t.Logf("withdrawn keys were in use for at most %s", longest.Round(time.Second))
}

// A provider that is down for a day must not stop a sale.
func TestKeysStayInUseWhileTheProviderIsDown(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var idp published
		idp.publish(t, jwk(&key.PublicKey, "k", ""))
		v, err := NewVerifier(settings.Auth{Lenient: true, JWKSURL: "https://idp.example/keys"}, &http.Client{Transport: &idp})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- v.Component(slog.New(slog.DiscardHandler)).Run(ctx) }()
		time.Sleep(fetchTimeout)
		idp.down.Store(true)
		time.Sleep(24 * time.Hour)
		_, err = v.Verify(ctx, sign(t, jwt.SigningMethodRS256, key, "k", good("exp", time.Now().Add(time.Hour).Unix())))
		require.NoError(t, err)
		require.LessOrEqual(t, idp.fetches.Load(), int32(24*60*3/2), "about one fetch in a minute")
		cancel()
		require.NoError(t, <-ended)
	})
}

// Callers with a new key wait for the fetch that is in flight. Once it has ended, an unknown key causes no other fetch
// for minInterval.
func TestCallersWaitForTheFetchInFlight(t *testing.T) {
	a, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	b, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var idp published
		idp.publish(t, jwk(&a.PublicKey, "a", ""))
		v, err := NewVerifier(settings.Auth{Lenient: true, JWKSURL: "https://idp.example/keys"}, &http.Client{Transport: &idp})
		require.NoError(t, err)
		until := time.Now().Add(time.Hour).Unix()
		_, err = v.Verify(t.Context(), sign(t, jwt.SigningMethodRS256, a, "a", good("exp", until)))
		require.NoError(t, err)
		time.Sleep(minInterval)

		idp.publish(t, jwk(&a.PublicKey, "a", ""), jwk(&b.PublicKey, "b", ""))
		failed := make(chan error)
		for user := range 3 {
			token := sign(t, jwt.SigningMethodRS256, b, "b", good("exp", until, "sub", strconv.Itoa(user)))
			go func() {
				_, err := v.Verify(t.Context(), token)
				failed <- err
			}()
			time.Sleep(time.Second)
		}
		for range 3 {
			require.NoError(t, <-failed)
		}
		require.EqualValues(t, 2, idp.fetches.Load())

		other := sign(t, jwt.SigningMethodRS256, b, "c", good("exp", until))
		_, err = v.Verify(t.Context(), other)
		require.Error(t, err)
		require.EqualValues(t, 2, idp.fetches.Load(), "the last fetch is recent")
		time.Sleep(minInterval)
		_, err = v.Verify(t.Context(), other)
		require.Error(t, err)
		require.EqualValues(t, 3, idp.fetches.Load())
	})
}

func TestRedirectsOfTheKeys(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	token := sign(t, jwt.SigningMethodRS256, key, "k", good())
	secure, plain := newTLSProvider(t), newProvider(t)
	secure.publish(t, jwk(&key.PublicKey, "k", ""))
	plain.publish(t, jwk(&key.PublicKey, "k", ""))
	var loop *httptest.Server
	loop = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch left := strings.TrimPrefix(r.URL.Path, "/"); left {
		case "plain":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "":
			http.Redirect(w, r, secure.URL, http.StatusFound)
		default: // one redirect for each character
			http.Redirect(w, r, loop.URL+"/"+left[1:], http.StatusFound)
		}
	}))
	t.Cleanup(loop.Close)
	for path, ok := range map[string]bool{"/": true, "/ab": true, "/abc": false, "/plain": false} {
		v, err := NewVerifier(settings.Auth{Lenient: true, JWKSURL: loop.URL + path}, loop.Client()) // trusts both servers: one certificate
		require.NoError(t, err)
		_, err = v.Verify(t.Context(), token)
		require.Equal(t, ok, err == nil, "%s: %v", path, err)
	}
	require.EqualValues(t, 2, secure.hits.Load())
	require.Zero(t, plain.hits.Load())

	// In development the first URL may be plain http.
	p := httptest.NewServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(p.Close)
	v, err := NewVerifier(settings.Auth{Lenient: true, JWKSURL: p.URL}, plain.Client())
	require.NoError(t, err)
	_, err = v.Verify(t.Context(), token)
	require.NoError(t, err)
}
