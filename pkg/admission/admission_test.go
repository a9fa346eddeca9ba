package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/porttest"
	"flashsale.internal/pkg/ratelimit/rules"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
)

const patience = 20 * time.Second

// load reads settings as a service does.
func load(t *testing.T, env map[string]string) (Settings, error) {
	t.Helper()
	var cfg struct {
		settings.App
		Settings
	}
	err := settings.Load(&cfg, env)
	return cfg.Settings, err
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func rule(t *testing.T, l *Limits, name string) (found rules.Rule) {
	t.Helper()
	for _, r := range l.Rules() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no rule %s", name)
	return found
}

// The embedded rules have the limits that the API documents.
func TestEmbeddedRules(t *testing.T) {
	dev, err := load(t, nil)
	require.NoError(t, err)
	relaxed, err := Local(dev, telemetry.Discard(t))
	require.NoError(t, err)
	for _, r := range relaxed.Rules() {
		require.NotContains(t, r.Key, "ip", r.Name)
		if strings.Contains(r.Key, "user") {
			require.EqualValues(t, 100, r.Limit, r.Name)
		}
		require.Contains(t, Names(), r.Name)
	}
	for name, limit := range map[string]int64{"path-activity": 1000, "path-total": 4000} {
		r := rule(t, relaxed, name)
		require.Equal(t, limit, r.Limit, name)
		require.Zero(t, r.Burst, "%s: the paths of one second", name)
		require.Equal(t, rules.Duration(time.Second), r.MaxWait, name)
		require.Empty(t, r.Where, "%s: for all pods together", name)
	}
	require.Equal(t, "param:activity_id", rule(t, relaxed, "path-activity").Key)

	prod, err := load(t, map[string]string{"APP_ENV": "production"})
	require.NoError(t, err)
	strict, err := Local(prod, telemetry.Discard(t))
	require.NoError(t, err)
	require.Equal(t, rules.Duration(2*time.Second), rule(t, strict, "path-click").Per)
	for _, name := range []string{"purchase-per-ip", "purchase-per-user", "result-per-user"} {
		require.Equal(t, "local", rule(t, strict, name).Where, "a purchase costs no call to Redis")
	}
	require.Len(t, strict.Rules(), len(Names()))
	for _, l := range []*Limits{relaxed, strict} {
		for _, total := range []string{"merchant-read-total", "merchant-write-total"} {
			require.Less(t, rule(t, l, "merchant-per-merchant").Limit, rule(t, l, total).Limit, "no merchant uses up %s", total)
		}
	}
	require.Less(t, rule(t, strict, "merchant-export-per-merchant").Limit, rule(t, strict, "merchant-export").Limit)
	for _, name := range []string{"path-activity", "path-total"} {
		require.Equal(t, rule(t, relaxed, name), rule(t, strict, name))
	}
}

// PATH_RATE and PATH_TOTAL_RATE replace the limits of the same rules.
func TestPathRates(t *testing.T) {
	own := file(t, `version: 1
rules:
  - {name: path-activity, limit: 2000, burst: 500}
  - {name: path-total, limit: 1000, burst: 100}`)
	type figures struct{ limit, burst int64 }
	for _, c := range []struct {
		env                     map[string]string
		wantActivity, wantTotal figures
	}{
		{map[string]string{}, figures{1000, 0}, figures{4000, 0}},
		{map[string]string{"PATH_RATE": "10"}, figures{10, 0}, figures{40, 0}},
		{map[string]string{"PATH_TOTAL_RATE": "10"}, figures{1000, 0}, figures{10, 0}},
		{map[string]string{"PATH_RATE": "10", "PATH_TOTAL_RATE": "15"}, figures{10, 0}, figures{15, 0}},
		{map[string]string{"PATH_RATE": "10000000"}, figures{10_000_000, 0}, figures{40_000_000, 0}},
		// The burst of a rule keeps its ratio to the limit.
		{map[string]string{"LIMIT_RULES": own, "PATH_RATE": "1000"}, figures{1000, 250}, figures{4000, 400}},
		{map[string]string{"LIMIT_RULES": own, "PATH_TOTAL_RATE": "5"}, figures{2000, 500}, figures{5, 1}},
	} {
		s, err := load(t, c.env)
		require.NoError(t, err)
		l, err := Local(s, telemetry.Discard(t))
		require.NoError(t, err)
		activity, total := rule(t, l, "path-activity"), rule(t, l, "path-total")
		require.Equal(t, c.wantActivity, figures{activity.Limit, activity.Burst}, c.env)
		require.Equal(t, c.wantTotal, figures{total.Limit, total.Burst}, c.env)
	}
}

// With a file of rules from before path-activity, an upgrade does not admit more than before.
func TestPathRateOfRulesWithoutAnActivityBucket(t *testing.T) {
	own := file(t, `version: 1
rules:
  - {name: path-total, limit: 1000, burst: 100}`)
	for env, want := range map[string]int64{"PATH_RATE": 500, "PATH_TOTAL_RATE": 700} {
		s, err := load(t, map[string]string{"LIMIT_RULES": own, env: strconv.FormatInt(want, 10)})
		require.NoError(t, err)
		l, err := Local(s, telemetry.Discard(t))
		require.NoError(t, err)
		require.Equal(t, want, rule(t, l, "path-total").Limit, env)
	}
}

func TestWrongSettingsStopTheStart(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"LIMIT_RULES is invalid":                              {"LIMIT_RULES": file(t, "version: 1\nrules: [{name: a, lmit: 1}]")},
		"LIMIT_RULES is invalid: open":                        {"LIMIT_RULES": "/nowhere"},
		"LIMIT_REDIS_ADDRS":                                   {"LIMIT_REDIS_ADDRS": "redis"},
		"LIMIT_REDIS_DB needs":                                {"LIMIT_REDIS_DB": "3"},
		"LIMIT_REDIS_MODE needs LIMIT_REDIS_ADDRS":            {"LIMIT_REDIS_MODE": "cluster"},
		"LIMIT_REDIS_SENTINEL_MASTER needs LIMIT_REDIS_ADDRS": {"LIMIT_REDIS_SENTINEL_MASTER": "m"},
		"LIMIT_REDIS_SENTINEL_MASTER is required":             {"LIMIT_REDIS_ADDRS": "a:1", "LIMIT_REDIS_MODE": "sentinel"},
		"LIMIT_REDIS_DB must be 0":                            {"LIMIT_REDIS_ADDRS": "a:1,b:2", "LIMIT_REDIS_DB": "3"},
		"LIMIT_REDIS_USERNAME needs LIMIT_REDIS_PASSWORD":     {"LIMIT_REDIS_USERNAME": "limits"},
		"TRUSTED_PROXIES holds \"edge\", which is neither an": {"TRUSTED_PROXIES": "10.0.0.0/8, edge"},
		"PATH_RATE is -1":                                     {"PATH_RATE": "-1"},
		"PATH_TOTAL_RATE is 40000001":                         {"PATH_TOTAL_RATE": "40000001"},
	} {
		_, err := load(t, env)
		require.ErrorContains(t, err, name)
	}
	s, err := load(t, map[string]string{"TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.7,2001:db8::/32"})
	require.NoError(t, err)
	proxies, err := s.proxies()
	require.NoError(t, err)
	require.Len(t, proxies, 3)
}

func TestTheRedisOfTheLimits(t *testing.T) {
	of := settings.Redis{
		Addrs: []string{"gate:1"}, DB: 2, Username: "gate", Password: settings.NewCredential("g"), TLS: true,
		SentinelPassword: settings.NewCredential("s"),
	}
	s, err := load(t, nil)
	require.NoError(t, err)
	require.Equal(t, of, s.Redis(of), "all is shared")

	s, err = load(t, map[string]string{"LIMIT_REDIS_USERNAME": "limits", "LIMIT_REDIS_PASSWORD": "l"})
	require.NoError(t, err)
	want := of
	want.Username, want.Password = "limits", settings.NewCredential("l")
	require.Equal(t, want, s.Redis(of), "a user of its own at the same server")

	s, err = load(t, map[string]string{
		"LIMIT_REDIS_ADDRS": "s1:1,s2:1", "LIMIT_REDIS_MODE": "sentinel", "LIMIT_REDIS_SENTINEL_MASTER": "m", "LIMIT_REDIS_DB": "3",
	})
	require.NoError(t, err)
	require.Equal(t, settings.Redis{
		Addrs: []string{"s1:1", "s2:1"}, DB: 3, Mode: settings.RedisSentinel, SentinelMaster: "m", TLS: true,
		SentinelPassword: of.SentinelPassword,
	}, s.Redis(of), "another server never gets the gate's password")
}

// If every address is a trusted proxy, every caller chooses the address that limits count.
func TestProductionRefusesWideProxyNetworks(t *testing.T) {
	for _, wide := range []string{"0.0.0.0/0", "::/0", "0.0.0.0/1", "128.0.0.0/1", "2000::/3", "10.0.0.0/8,0.0.0.0/0"} {
		_, err := load(t, map[string]string{"APP_ENV": "production", "TRUSTED_PROXIES": wide})
		require.ErrorContains(t, err, "TRUSTED_PROXIES holds ", wide)
		require.ErrorContains(t, err, "APP_ENV=production", wide)
		_, err = load(t, map[string]string{"TRUSTED_PROXIES": wide})
		require.NoError(t, err, wide)
	}
	_, err := load(t, map[string]string{"APP_ENV": "production", "TRUSTED_PROXIES": "10.0.0.0/8,172.16.0.0/12,192.0.2.7,fc00::/7,2001:db8::1"})
	require.NoError(t, err)
}

// site returns a client of two limited routes; its callers name themselves in a header.
func site(l *Limits, names ...string) func(user, forwarded string) *httptest.ResponseRecorder {
	r := chi.NewRouter()
	who := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Identity{UserID: r.Header.Get("User")})))
		})
	}
	for _, path := range []string{"/one", "/other"} {
		r.With(who, l.On(names...)).Get(path, func(http.ResponseWriter, *http.Request) {})
	}
	return func(user, forwarded string) *httptest.ResponseRecorder {
		path, user, _ := strings.Cut(user, " ")
		q := httptest.NewRequest(http.MethodGet, "/"+path, nil)
		q.RemoteAddr = "10.1.2.3:4711"
		q.Header.Set("User", user)
		if forwarded != "" {
			q.Header.Set("X-Forwarded-For", forwarded)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		return w
	}
}

func TestCallersThatShareALimit(t *testing.T) {
	s, err := load(t, map[string]string{"TRUSTED_PROXIES": "10.0.0.0/8", "LIMIT_RULES": file(t, `version: 1
rules:
  - {name: by-address, key: ip, limit: 1, per: 1h}
  - {name: by-user, key: user+route, limit: 1, per: 1h}`)})
	require.NoError(t, err)
	l, err := Local(s, telemetry.Discard(t))
	require.NoError(t, err)

	byAddress := site(l, "by-address")
	require.Equal(t, 200, byAddress("one ", "203.0.113.1").Code)
	require.Equal(t, 200, byAddress("one ", "203.0.113.2").Code)
	require.Equal(t, 429, byAddress("one ", "198.51.100.9, 203.0.113.1").Code, "an address that the caller adds on the left is not trusted")
	require.Equal(t, 200, byAddress("one ", "2001:db8:1:1::1").Code)
	require.Equal(t, 429, byAddress("one ", "2001:db8:1:1::ffff").Code, "the same /64")
	require.Equal(t, 200, byAddress("one ", "2001:db8:1:2::1").Code)

	byUser := site(l, "by-user")
	require.Equal(t, 200, byUser("one alice", "").Code)
	require.Equal(t, 200, byUser("other alice", "").Code, "another route")
	require.Equal(t, 200, byUser("one bob", "").Code)
	refused := byUser("one alice", "")
	require.Equal(t, 429, refused.Code)
	var problem struct {
		Code     string   `json:"code"`
		Violated []string `json:"violated_policies"`
	}
	require.NoError(t, json.Unmarshal(refused.Body.Bytes(), &problem))
	require.Equal(t, "rate_limited", problem.Code)
	require.Equal(t, []string{"by-user"}, problem.Violated)
	require.NotEmpty(t, refused.Header().Get("Retry-After"))
	require.Equal(t, `"by-user";q=1;w=3600`, refused.Header().Get("RateLimit-Policy"))
	require.Regexp(t, `^"by-user";r=0;t=\d+$`, refused.Header().Get("RateLimit"))
}

func TestWaitingIsNotified(t *testing.T) {
	l, err := Local(Settings{Rules: file(t, "version: 1\nrules: [{name: a, limit: 50, burst: 1, max_wait: 10s}]")}, telemetry.Discard(t))
	require.NoError(t, err)
	var calls []bool
	h := l.On("a")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n := 0; len(calls) == 0 && n < 200; n++ { // on a slow machine the next token may already be there
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r = r.WithContext(WithWaiting(r.Context(), func(waiting bool) { calls = append(calls, waiting) }))
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	require.Equal(t, []bool{true, false}, calls)
}

// The loops apply changes of the file and of Redis, tolerate a Redis that starts late, and end.
func TestRulesAreKeptUpToDate(t *testing.T) {
	m, addr := miniredis.NewMiniRedis(), porttest.Free(t) // started later
	tel, _ := telemetry.Recording()
	tel.Log = slog.New(slog.DiscardHandler)
	path := file(t, "version: 1\nrules: [{name: a, limit: 1, per: 1h, where: local}]")
	l, err := New(Settings{Rules: path}, settings.Redis{Addrs: []string{addr}}, tel)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = lifecycle.Run(ctx, tel.Log, patience, l.Components()...) })
	defer wg.Wait()
	defer cancel()
	page := func() string {
		w := httptest.NewRecorder()
		tel.Metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	require.Eventually(t, func() bool { return strings.Contains(page(), `flashsale_breaker{flashsale_dependency="limits"} 2`) }, patience, 10*time.Millisecond)
	post := site(l, "a")
	require.Equal(t, 200, post("one u", "").Code, "without Redis as well")
	require.Equal(t, 429, post("one u", "").Code)
	require.Contains(t, page(), `flashsale_limits_decisions_total{flashsale_limit="a",flashsale_outcome="refused"} 1`)
	require.Contains(t, page(), `flashsale_limits_decided_total{flashsale_source="local"} 2`)

	require.NoError(t, m.StartAddr(addr))
	defer m.Close()
	require.Eventually(t, func() bool { return strings.Contains(page(), `flashsale_breaker{flashsale_dependency="limits"} 0`) }, patience, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(path, []byte("version: 1\nrules: [{name: a, limit: 2, where: local}]"), 0o600))
	require.Eventually(t, func() bool { return rule(t, l, "a").Limit == 2 }, patience, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(path, []byte("version: 1\nrules: [{name: a, limit: -2}]"), 0o600))
	require.Eventually(t, func() bool {
		return strings.Contains(page(), `flashsale_limits_reloads_total{flashsale_outcome="refused",flashsale_source="file"} 1`)
	}, patience, 10*time.Millisecond)
	require.EqualValues(t, 2, rule(t, l, "a").Limit)
	require.Eventually(t, func() bool {
		set, version, err := l.Store.Get(t.Context())
		if err == nil {
			_, err = l.Store.Put(t.Context(), set.With(rules.Rule{Name: "a", Limit: 3, Where: "local"}), version)
		}
		return err == nil
	}, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return rule(t, l, "a").Limit == 3 }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		all, n, err := l.Store.Overview(t.Context())
		return err == nil && n == 1 && all["a"].Refused == 1
	}, patience, 10*time.Millisecond)
}

// A limit by a path parameter counts its value, not its spelling.
func TestALimitByAParameterCountsEverySpelling(t *testing.T) {
	l, err := Local(Settings{Rules: file(t, `version: 1
rules: [{name: a, key: "param:id", limit: 1, per: 1h}]`)}, telemetry.Discard(t))
	require.NoError(t, err)
	r := chi.NewRouter()
	r.With(l.On("a")).Get("/{id}", func(http.ResponseWriter, *http.Request) {})
	get := func(path string) int {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	require.Equal(t, 200, get("/12"))
	for _, path := range []string{"/12", "/%312", "/1%32", "/%31%32"} {
		require.Equal(t, 429, get(path), path)
	}
	require.Equal(t, 200, get("/13"))
}

// All users of a merchant share the limit by merchant. Operators who act for no merchant have one each.
func TestTheLimitByMerchant(t *testing.T) {
	s, err := load(t, map[string]string{"LIMIT_RULES": file(t, `version: 1
rules:
  - {name: merchant-per-merchant, key: merchant, limit: 2, per: 1h, where: local}`)})
	require.NoError(t, err)
	l, err := Local(s, telemetry.Discard(t))
	require.NoError(t, err)
	h := l.On("merchant-per-merchant")(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	call := func(merchant, user string, role auth.Role) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		w := httptest.NewRecorder()
		id := auth.Identity{UserID: user, MerchantID: merchant, Roles: []auth.Role{role}}
		h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), id)))
		return w.Code
	}
	for _, c := range []struct {
		merchant, user string
		role           auth.Role
		status         int
	}{
		{"m1", "a", auth.Merchant, 200},
		{"m1", "b", auth.Merchant, 200},
		{"m1", "c", auth.Merchant, 429},
		{"m2", "a", auth.Merchant, 200},
		{"", "m1", auth.Operator, 200}, // not the limit of the merchant m1
		{"", "m1", auth.Operator, 200},
		{"", "m1", auth.Operator, 429},
		{"", "other", auth.Operator, 200},
		{"m2", "op", auth.Operator, 200},
		{"m2", "a", auth.Merchant, 429},
	} {
		require.Equal(t, c.status, call(c.merchant, c.user, c.role), "%+v", c)
	}
}
