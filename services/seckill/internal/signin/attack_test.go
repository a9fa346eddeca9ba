package signin

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
)

// limitsWith returns limits with the Redis at addr and the rules.
func limitsWith(t *testing.T, addr, rules string) *admission.Limits {
	t.Helper()
	s := admission.Settings{TrustedProxies: []string{"127.0.0.1"}}
	if rules != "" {
		s.Rules = filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(s.Rules, []byte("version: 1\nrules:\n"+rules), 0o600))
	}
	of := settings.Redis{}
	if addr != "" {
		of.Addrs = []string{addr}
	}
	l, err := admission.New(s, of, telemetry.Discard(t))
	require.NoError(t, err)
	if rdb := l.Redis(); rdb != nil {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	return l
}

// repeat sends one callback in connections of its own, to one process after another. It returns the number of responses
// by status when all have come.
func repeat(t *testing.T, connections int, cookie, query string, to ...*site) <-chan map[int]int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: to[0].browser.CheckRedirect}
	var wg sync.WaitGroup
	var mu sync.Mutex
	byStatus := map[int]int{}
	for i := range connections {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to[i%len(to)].URL+CallbackPath+query, nil)
		require.NoError(t, err)
		r.AddCookie(&http.Cookie{Name: "flashsale-sign-in", Value: cookie})
		wg.Go(func() {
			status := 0
			if w, err := client.Do(r); err == nil {
				status = w.StatusCode
				_, _ = io.Copy(io.Discard, w.Body)
				_ = w.Body.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			byStatus[status]++
		})
	}
	done := make(chan map[int]int, 1)
	go func() {
		wg.Wait()
		transport.CloseIdleConnections()
		done <- byStatus
	}()
	return done
}

// A browser that repeats its own callback in many connections gets one answer of the provider, and takes no slot of
// others: meanwhile buyers sign in, to the end. The mark is in the Redis of the limits, for all processes. Without that
// Redis each process keeps marks of its own, and no sign-in fails. The gate and its Redis take no part in a sign-in, so
// it is the same in redisless and brokerless sales, and before waiting rooms and challenges.
func TestAnAttemptIsSpentOnce(t *testing.T) {
	for name, c := range map[string]struct {
		redis, down bool
		exchanges   int32 // of the repeated code: by how many processes
	}{
		"by the only process":         {false, false, 1},
		"by all processes":            {true, false, 1},
		"by each while Redis is down": {true, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			addr, mini := "", (*miniredis.Miniredis)(nil)
			if c.redis {
				mini = miniredis.RunT(t)
				addr = mini.Addr()
			}
			s := newLimitedSite(t, limitsWith(t, addr, ""), ownProvider(t))
			sites := []*site{s}
			if c.redis {
				sites = append(sites, newLimitedSite(t, limitsWith(t, addr, ""),
					func(o *Settings, _ *settings.Auth, _ string) *identityProvider {
						o.Issuer = s.provider.issuer
						return s.provider
					}))
			}
			for _, to := range sites {
				// A connection exists, so that a busy machine does not make Redis seem down.
				require.Eventually(t, func() bool { return !c.redis || to.signIn.limits.Redis().Ping(t.Context()).Err() == nil },
					time.Minute, time.Millisecond)
			}
			if c.down {
				mini.Close()
			}
			var exchanges atomic.Int32
			answer := make(chan struct{})
			release := sync.OnceFunc(func() { close(answer) })
			defer release()
			s.provider.interceptBy(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == tokenPath && r.PostFormValue("code") == "repeated" {
					exchanges.Add(1)
					<-answer
				}
				return false
			})
			var arrived atomic.Int32
			for _, to := range sites {
				inner := to.Config.Handler
				to.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Get("code") == "repeated" {
						arrived.Add(1)
					}
					inner.ServeHTTP(w, r)
				})
			}
			state := s.begin("/").Query().Get("state")
			cookie, query := s.cookies()["flashsale-sign-in"], "?code=repeated&state="+state
			var all []<-chan map[int]int
			for i, to := range sites {
				first := repeat(t, 1, cookie, query, to)
				all = append(all, first)
				require.Eventually(t, func() bool { return exchanges.Load() == int32(i)+1 || len(first) > 0 }, time.Minute,
					time.Millisecond)
			}
			all = append(all, repeat(t, 300, cookie, query, sites...))
			require.Eventually(t, func() bool { return int(arrived.Load()) == len(sites)+300 }, time.Minute, time.Millisecond)

			for i := range 40 {
				buyer := *s
				jar, err := cookiejar.New(nil)
				require.NoError(t, err)
				buyer.browser = &http.Client{Jar: jar, Transport: s.browser.Transport, Timeout: 20 * time.Second}
				if i > 0 {
					buyer.begin("/")
					continue
				}
				form, err := buyer.browser.Get(s.URL + "/auth/login")
				require.NoError(t, err)
				s.provider.login(t, buyer.browser, form)
				require.NoError(t, form.Body.Close())
				require.Equal(t, true, buyer.session()["signed_in"], "to the end")
			}
			release()
			got := map[int]int{}
			for _, responses := range all {
				for status, n := range <-responses {
					got[status] += n
				}
			}
			require.Equal(t, c.exchanges, exchanges.Load(), "calls of the provider's token endpoint")
			require.EqualValues(t, int32(len(sites)+300)-c.exchanges, got[http.StatusBadRequest], "used before: %v", got)
			require.EqualValues(t, c.exchanges, got[http.StatusForbidden]+got[http.StatusServiceUnavailable],
				"the provider refuses the code, or responds too late: %v", got)
			if c.redis && !c.down {
				require.Equal(t, attemptTTL, mini.TTL("fs:sign-in:"+state), "no longer than an attempt is valid")
			}
		})
	}
}

// Login and callback have limits by address of their own.
func TestSignInsAreLimitedByAddress(t *testing.T) {
	s := newLimitedSite(t, limitsWith(t, "", `  - {name: login-per-ip, key: ip, limit: 2, per: 1h, where: local}
  - {name: callback-per-ip, key: ip, limit: 1, per: 1h, where: local}
`), ownProvider(t))
	s.stay()
	status := func(path, address string) int {
		got := s.send(http.MethodGet, path, "", "X-Forwarded-For", address)
		if got.StatusCode == http.StatusTooManyRequests {
			name := strings.TrimPrefix(path, "/auth/") + "-per-ip"
			require.Contains(t, got.text, name)
			require.NotEmpty(t, got.Header.Get("Retry-After"))
			require.Empty(t, got.Header.Get("Set-Cookie"), "the attempt can go on later")
		}
		return got.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, status(CallbackPath, "203.0.113.1"))
	require.Equal(t, http.StatusTooManyRequests, status(CallbackPath, "203.0.113.1"))
	require.Equal(t, http.StatusFound, status("/auth/login", "203.0.113.1"))
	require.Equal(t, http.StatusFound, status("/auth/login", "203.0.113.1"))
	require.Equal(t, http.StatusTooManyRequests, status("/auth/login", "203.0.113.1"))
	require.Equal(t, http.StatusFound, status("/auth/login", "203.0.113.2"))
	require.Equal(t, http.StatusBadRequest, status(CallbackPath, "203.0.113.2"))
}
