package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ratelimit"
	"flashsale.internal/pkg/ratelimit/httpfield"
)

const patience = 20 * time.Second

func parse(t testing.TB, text string) Set {
	t.Helper()
	s, err := Parse([]byte(text))
	require.NoError(t, err)
	return s
}

const good = `
version: 1
rules:
  - {name: path-per-user, limit: 2, per: 1h, key: user+param:activity_id, where: local}
  - {name: path-total, limit: 5, per: 1h, where: local}
`

func TestParseIsStrict(t *testing.T) {
	s := parse(t, good)
	text, err := format(s)
	require.NoError(t, err)
	require.Equal(t, s, parse(t, text))
	for name, bad := range map[string]string{
		"the file is empty":              ``,
		"field limits not found":         "version: 1\nlimits: []",
		"field lmit not found":           "version: 1\nrules: [{name: a, lmit: 1}]",
		"version 0":                      "rules: []",
		"more than one document":         "version: 1\n---\nversion: 1",
		"is defined twice":               "version: 1\nrules: [{name: a, limit: 1}, {name: a, limit: 1}]",
		"already defined":                "version: 1\nrules: [{name: a, limit: 1, limit: 2}]",
		"name is not":                    "version: 1\nrules: [{name: A b, limit: 1}]",
		"below 0":                        "version: 1\nrules: [{name: a, limit: -1}]",
		"is not one of token_bucket":     "version: 1\nrules: [{name: a, limit: 1, algorithm: tokens}]",
		"is not a duration":              "version: 1\nrules: [{name: a, limit: 1, per: soon}]",
		"period":                         "version: 1\nrules: [{name: a, limit: 1, per: -1s}]",
		"is not one of ip":               "version: 1\nrules: [{name: a, limit: 1, key: cookie}]",
		"can never be granted at once":   "version: 1\nrules: [{name: a, limit: 10, burst: 2, cost: 3}]",
		"takes no reservations":          "version: 1\nrules: [{name: a, limit: 1, algorithm: fixed_window, max_wait: 1s}]",
		"on_failure":                     "version: 1\nrules: [{name: a, limit: 1, on_failure: panic}]",
		"cannot be leased":               "version: 1\nrules: [{name: a, limit: 1, algorithm: sliding_log, lease: 0.01}]",
		"lease 0.5":                      "version: 1\nrules: [{name: a, limit: 1, lease: 0.5}]",
		"lease needs where: redis":       "version: 1\nrules: [{name: a, limit: 1, where: local, lease: 0.01}]",
		"inherit":                        "version: 1\nrules: [{name: a, limit: 1, inherit: maybe}]",
		"only concurrency":               "version: 1\nrules: [{name: a, limit: 1, queue: 1}]",
		"concurrency does not allow per": "version: 1\nrules: [{name: a, limit: 1, algorithm: concurrency, burst: 3}]",
		"max_wait 2m0s is not between":   "version: 1\nrules: [{name: a, limit: 1, max_wait: 2m}]",
		"both defined and deleted":       "version: 1\nrules: [{name: a, limit: 1}]\ndeleted: [a]",
		"where":                          "version: 1\nrules: [{name: a, limit: 1, where: moon}]",
		"limit is required":              "version: 1\nrules: [{name: a, per: 1s}]",
		"needs refuse_all: true":         "version: 1\nrules: [{name: a, limit: 0}]",
		"refuse_all needs limit 0":       "version: 1\nrules: [{name: a, limit: 1, refuse_all: true}]",
		"per must not be 0":              "version: 1\nrules: [{name: a, limit: 1, per: 0s}]",
		"burst must not be 0":            "version: 1\nrules: [{name: a, limit: 1, burst: 0}]",
		"cost must not be 0":             "version: 1\nrules: [{name: a, limit: 1, cost: 0}]",
		"max_wait must not be 0":         "version: 1\nrules: [{name: a, limit: 1, max_wait: 0ms}]",
		"queue must not be 0":            "version: 1\nrules: [{name: a, limit: 1, algorithm: concurrency, queue: 0}]",
		"buckets must not be 0":          "version: 1\nrules: [{name: a, limit: 1, algorithm: sliding_window, buckets: 0}]",
		"warm_up must not be 0":          "version: 1\nrules: [{name: a, limit: 1, algorithm: warm_up, warm_up: 0m}]",
		"cold_factor must not be 0":      "version: 1\nrules: [{name: a, limit: 1, algorithm: warm_up, cold_factor: 0.0}]",
	} {
		_, err := Parse([]byte(bad))
		require.ErrorContains(t, err, name, bad)
	}
	_, err = Parse(bytes.Repeat([]byte("#"), maxFile+1))
	require.Error(t, err)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"version":1,"rules":[{"name":"a","limit":1,"lease":0.01,"algorithm":"gcra","key":"header:X+ip"}]}`))
	f.Add([]byte("version: 1\nrules: [{name: a, limit: 0, refuse_all: true, algorithm: warm_up, warm_up: 1s, cold_factor: .nan}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := format(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseStored(again); err != nil {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		for i := range s.Rules { // keeps the fuzzer from allocating large limiters
			s.Rules[i].Where = "local"
			s.Rules[i].Lease = 0
		}
		if len(s.Rules) < 20 {
			if err := New(Options{}).Apply(s); err != nil {
				t.Fatalf("%q is good and cannot be applied: %v", text, err)
			}
		}
	})
}

type response struct {
	*httptest.ResponseRecorder
}

func (a response) limits(t *testing.T) []httpfield.Limit {
	ls, err := httpfield.ParseLimits(strings.Join(a.Result().Header.Values("RateLimit"), ", "))
	require.NoError(t, err)
	return ls
}

// site returns a function that sends a request to a server with limits on a route.
func site(g *Registry, names ...string) func(user, activity string, edit ...func(*http.Request)) response {
	r := chi.NewRouter()
	r.With(g.On(names...)).Post("/a/{activity_id}/paths",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	return func(user, activity string, edit ...func(*http.Request)) response {
		q := httptest.NewRequest(http.MethodPost, "/a/"+activity+"/paths", nil)
		q.Header.Set("Test-User", user)
		for _, e := range edit {
			e(q)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		return response{w}
	}
}

func byHeader(r *http.Request) (string, bool) {
	u := r.Header.Get("Test-User")
	return u, u != ""
}

func TestRulesOnARoute(t *testing.T) {
	g := New(Options{User: byHeader})
	post := site(g, "path-per-user", "path-total", "no-such-rule")
	require.Equal(t, http.StatusCreated, post("u", "1").Code, "no rule, no limit")
	require.Equal(t, []string{"no-such-rule", "path-per-user", "path-total"}, g.Missing())
	require.NoError(t, g.Apply(parse(t, good)))
	require.Equal(t, []string{"no-such-rule"}, g.Missing())

	w := post("u", "1")
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, `"path-per-user";q=2;w=3600, "path-total";q=5;w=3600`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, []httpfield.Limit{
		{Name: "path-per-user", Remaining: 1, Reset: 1800 * time.Second},
		{Name: "path-total", Remaining: 4, Reset: 720 * time.Second},
	}, w.limits(t))
	require.Empty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusCreated, post("u", "1").Code)

	for range 10 { // refused requests charge nothing
		w = post("u", "1")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
	}
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var problem struct {
		Status   int
		Violated []string `json:"violated_policies"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
	require.Equal(t, 429, problem.Status)
	require.Equal(t, []string{"path-per-user"}, problem.Violated)
	retry, err := strconv.Atoi(w.Header().Get("Retry-After"))
	require.NoError(t, err)
	limits := w.limits(t)
	require.Zero(t, limits[0].Remaining)
	require.LessOrEqual(t, limits[0].Reset, time.Duration(retry)*time.Second, "Retry-After is not earlier than t")
	require.EqualValues(t, 3, limits[1].Remaining)

	require.Equal(t, http.StatusCreated, post("u", "2").Code, "another activity")
	require.Equal(t, http.StatusCreated, post("v", "1").Code)
	require.Equal(t, http.StatusCreated, post("w", "1").Code)
	w = post("x", "1")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Contains(t, w.Body.String(), `["path-total"]`)

	st, err := g.Status("path-per-user", 10)
	require.NoError(t, err)
	require.EqualValues(t, 5, st.Allowed)
	require.EqualValues(t, 10, st.Refused)
	require.Len(t, st.Limited, 1)
	require.Equal(t, "u|1", st.Limited[0].Key)
	require.EqualValues(t, 10, st.Limited[0].Refused)
	res, err := g.Try(t.Context(), "path-per-user", "u|1")
	require.NoError(t, err)
	require.False(t, res.Allowed)
	res, err = g.Try(t.Context(), "path-per-user", "v|1")
	require.NoError(t, err)
	require.True(t, res.Allowed)
	require.EqualValues(t, 1, res.Remaining)
	require.NoError(t, g.Reset(t.Context(), "path-total", ""))
	require.Equal(t, http.StatusCreated, post("x", "1").Code)
	_, err = g.Status("x", 1)
	require.ErrorIs(t, err, ErrUnknownRule)
	_, err = g.Try(t.Context(), "x", "")
	require.ErrorIs(t, err, ErrUnknownRule)
	require.Len(t, g.List(), 2)
}

func TestChangeKeepsSpentPermits(t *testing.T) {
	g := New(Options{User: byHeader})
	post := site(g, "path-total")
	set := parse(t, good)
	require.NoError(t, g.Apply(set))
	for range 5 {
		require.Equal(t, http.StatusCreated, post("u", "1").Code)
	}
	set.Rules[1].Limit = 7
	require.NoError(t, g.Apply(set))
	for range 2 {
		require.Equal(t, http.StatusCreated, post("u", "1").Code, "two more, not seven")
	}
	require.Equal(t, http.StatusTooManyRequests, post("u", "1").Code)
	bad := parse(t, good)
	bad.Rules[0].Limit = -1
	require.Error(t, g.Apply(bad))
	require.EqualValues(t, 7, g.Rules()[1].Limit, "a bad set changes nothing")
	require.NoError(t, g.Overlay(Set{Version: 1, Deleted: []string{"path-total"}}))
	require.Equal(t, http.StatusCreated, post("u", "1").Code)
	require.NoError(t, g.Overlay(Set{Version: 1, Rules: []Rule{{Name: "path-total", RefuseAll: true, Where: "local"}}}))
	w := post("u", "1")
	require.Equal(t, http.StatusTooManyRequests, w.Code, "0 refuses every request")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.NotEmpty(t, w.Header().Get("RateLimit"))
}

func TestShadowRefusesNothing(t *testing.T) {
	g := New(Options{User: byHeader})
	post := site(g, "path-total")
	set := parse(t, good)
	set.Rules[1].Shadow = true
	require.NoError(t, g.Apply(set))
	for range 8 {
		w := post("u", "1")
		require.Equal(t, http.StatusCreated, w.Code)
		require.Empty(t, w.Header().Get("RateLimit"))
	}
	st, err := g.Status("path-total", 1)
	require.NoError(t, err)
	require.EqualValues(t, 5, st.Allowed)
	require.EqualValues(t, 3, st.Shadowed)
	require.Zero(t, st.Refused)
}

func TestSubjectsCannotBeForged(t *testing.T) {
	g := New(Options{User: byHeader, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	subject := func(key string, edit func(*http.Request)) string {
		parts, err := parseKey(key)
		require.NoError(t, err)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = "10.0.0.1:1"
		edit(r)
		return g.subject(r, parts)
	}
	require.Empty(t, subject("all", func(*http.Request) {}))
	require.Equal(t, "-", subject("user", func(*http.Request) {}))
	require.Equal(t, "1.2.3.4", subject("ip",
		func(r *http.Request) { r.Header.Set("X-Forwarded-For", "6.6.6.6, 1.2.3.4") }))
	require.Equal(t, "2001:db8::/64", subject("ip", func(r *http.Request) { r.RemoteAddr = "[2001:db8::5]:1" }))
	a := subject("header:x+header:y", func(r *http.Request) { r.Header.Set("X", "a|b"); r.Header.Set("Y", "c") })
	b := subject("header:x+header:y", func(r *http.Request) { r.Header.Set("X", "a"); r.Header.Set("Y", "b|c") })
	require.NotEqual(t, a, b)
}

func TestWaitingRequests(t *testing.T) {
	var waits atomic.Int64
	g := New(Options{User: byHeader, Waiting: func(_ *http.Request, waiting bool) {
		if waiting {
			waits.Add(1)
		}
	}})
	post := site(g, "slow", "wide")
	require.NoError(t, g.Apply(parse(t, `
version: 1
rules:
  - {name: slow, limit: 1, per: 1h, burst: 1, max_wait: 1m, where: local}
  - {name: wide, limit: 10, per: 1h, where: local}
`)))
	require.Equal(t, http.StatusCreated, post("u", "1").Code)
	w := post("u", "1") // its turn would be in an hour
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.NoError(t, g.Apply(parse(t, `
version: 1
rules:
  - {name: slow, limit: 20, per: 1s, burst: 1, max_wait: 1m, where: local}
  - {name: wide, limit: 10, per: 1h, where: local}
`)))
	start, passed := time.Now(), 0
	for ; waits.Load() == 0 && passed < 8; passed++ { // a slow machine earns the next permit without a wait
		require.Equal(t, http.StatusCreated, post("u", "1").Code)
	}
	require.Positive(t, waits.Load())
	require.GreaterOrEqual(t, time.Since(start), time.Duration(passed-1)*50*time.Millisecond-time.Millisecond,
		"one at once, 20 a second after that")

	require.NoError(t, g.Apply(parse(t, `
version: 1
rules:
  - {name: slow, limit: 1, per: 10s, burst: 1, max_wait: 1m, where: local}
  - {name: wide, limit: 10, per: 1h, where: local}
`)))
	post("u", "1", func(r *http.Request) { // ends while it waits
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		*r = *r.WithContext(ctx)
	})
	left, err := g.Try(t.Context(), "wide", "")
	require.NoError(t, err)
	require.EqualValues(t, 10-1-passed, left.Remaining, "what it took went back")
}

func TestConcurrencyOnARoute(t *testing.T) {
	g := New(Options{User: byHeader})
	require.NoError(t, g.Apply(parse(t, "version: 1\n"+
		"rules: [{name: few, algorithm: concurrency, limit: 1, key: user, where: local}]")))
	inside, leave := make(chan struct{}), make(chan struct{})
	h := g.On("few")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-leave
	}))
	serve := func(user string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Test-User", user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var wg sync.WaitGroup
	wg.Go(func() { serve("u") })
	<-inside
	w := serve("u")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	wg.Go(func() { serve("v") })
	<-inside
	close(leave)
	wg.Wait()
	wg.Go(func() { serve("u") })
	<-inside
	wg.Wait()
}

func TestClosedRuleResponds503(t *testing.T) {
	rdb := ratelimit.Connect([]string{"127.0.0.1:1"}, 0)
	defer rdb.Close()
	g := New(Options{Conn: ratelimit.NewConn(rdb, ratelimit.ConnOptions{}), User: byHeader})
	post := site(g, "a", "b")
	require.NoError(t, g.Apply(parse(t, "version: 1\n"+
		"rules: [{name: a, limit: 5, on_failure: closed}, {name: b, limit: 5, on_failure: open}]")))
	w := post("u", "1")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.NoError(t, g.Apply(parse(t, "version: 1\n"+
		"rules: [{name: a, limit: 5, per: 1h}, {name: b, limit: 5, on_failure: open}]")))
	require.Equal(t, http.StatusCreated, post("u", "1").Code, "the share of one process")
	require.Equal(t, http.StatusTooManyRequests, post("u", "1").Code, "begins without a burst")
}

func TestFileIsReloaded(t *testing.T) {
	var reloads, failures atomic.Int64
	var logged bytes.Buffer
	var mu sync.Mutex
	g := New(Options{OnReload: func(_ string, err error) {
		reloads.Add(1)
		if err != nil {
			failures.Add(1)
		}
	}, Log: slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return logged.Write(b)
	}), nil))})
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.Error(t, g.Load(path))
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(good)
	require.NoError(t, g.Load(path))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Watch(ctx, path, time.Millisecond) })
	defer wg.Wait()
	defer cancel()
	soon := func(what func() bool) { require.Eventually(t, what, patience, time.Millisecond) }
	limit := func() int64 { return g.Rules()[len(g.Rules())-1].Limit }
	write(strings.Replace(good, "limit: 5", "limit: 6", 1))
	soon(func() bool { return limit() == 6 })
	write(strings.Replace(good, "limit: 5", "lmit: 9", 1))
	soon(func() bool { return failures.Load() >= 1 })
	require.EqualValues(t, 6, limit(), "the old rules stay")
	soon(func() bool { mu.Lock(); defer mu.Unlock(); return strings.Contains(logged.String(), "lmit") })
	n := failures.Load()
	require.NoError(t, os.Remove(path))
	soon(func() bool { return failures.Load() > n })
	require.EqualValues(t, 6, limit())
	write(strings.Replace(good, "limit: 5", "limit: 8", 1))
	soon(func() bool { return limit() == 8 })
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func realRedis(t testing.TB) redis.UniversalClient {
	addrs := os.Getenv("REDIS_ADDRS")
	if addrs == "" {
		addrs = "127.0.0.1:16379"
	}
	rdb := ratelimit.Connect(strings.Split(addrs, ","), 6, func(o *redis.UniversalOptions) {
		o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.PoolTimeout = patience, patience, patience, patience
	})
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoErrorf(t, rdb.Ping(t.Context()).Err(),
		"no Redis at %s (REDIS_ADDRS); run `make test`, which starts one", addrs)
	return rdb
}

func TestRulesInRedis(t *testing.T) {
	m := miniredis.RunT(t)
	small := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer small.Close()
	for name, rdb := range map[string]redis.UniversalClient{"redis": realRedis(t), "miniredis": small} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(rdb, fmt.Sprintf("test-%d", time.Now().UnixNano()))
			s.timeout = patience
			s.every = time.Hour // only messages
			t.Cleanup(func() { rdb.Del(context.Background(), s.key) })
			var processes []*Registry
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			for range 2 {
				g := New(Options{})
				require.NoError(t, g.Apply(parse(t, good)))
				processes = append(processes, g)
				wg.Go(func() { _ = s.Follow(ctx, g) })
			}
			require.Eventually(t, func() bool {
				n, err := rdb.PubSubNumSub(t.Context(), s.key).Result()
				return err == nil && n[s.key] == 2
			}, patience, time.Millisecond)
			everywhere := func(what func(rules []Rule) bool) {
				t.Helper()
				require.Eventually(t, func() bool {
					return what(processes[0].Rules()) && what(processes[1].Rules())
				}, patience, time.Millisecond)
			}
			change := func(do func(Set) Set) int64 {
				t.Helper()
				set, version, err := s.Get(t.Context())
				require.NoError(t, err)
				version, err = s.Put(t.Context(), do(set), version)
				require.NoError(t, err)
				return version
			}
			require.EqualValues(t, 1, change(func(set Set) Set {
				return set.With(Rule{Name: "path-total", Limit: 50, Where: "local"})
			}))
			everywhere(func(rs []Rule) bool { return len(rs) == 2 && rs[1].Limit == 50 })
			change(func(set Set) Set { return set.Without("path-per-user") })
			everywhere(func(rs []Rule) bool { return len(rs) == 1 })
			change(func(set Set) Set { return set.Reverted("path-per-user") })
			everywhere(func(rs []Rule) bool { return len(rs) == 2 })
			set, version, err := s.Get(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 3, version)
			for _, stale := range []int64{0, version - 1, version + 1} {
				_, err = s.Put(t.Context(), set, stale)
				require.ErrorIs(t, err, ErrConflict, "%d", stale)
			}
			_, err = s.Put(t.Context(), set.With(Rule{Name: "x", Limit: -1}), version)
			require.ErrorContains(t, err, `rules: rule "x"`)

			// Values that were not written by this package change nothing.
			require.NoError(t, rdb.HSet(t.Context(), s.key, "version", 9, "text", "version: 1\nrulez: []").Err())
			require.NoError(t, rdb.Publish(t.Context(), s.key, "9").Err())
			set.Rules[0].Limit = 60
			_, err = s.Put(t.Context(), set, 9)
			require.NoError(t, err)
			everywhere(func(rs []Rule) bool { return len(rs) == 2 && rs[1].Limit == 60 })

			// A Redis that lost the rules gets them back.
			require.NoError(t, rdb.Del(t.Context(), s.key).Err())
			require.NoError(t, rdb.Publish(t.Context(), s.key, "0").Err())
			require.Eventually(t, func() bool { _, v, err := s.Get(t.Context()); return err == nil && v == 10 },
				patience, time.Millisecond)
			everywhere(func(rs []Rule) bool { return rs[1].Limit == 60 })
		})
	}
}

// Limit 0 in Redis refuses all without the word that files and the API need: processes of 0.1.0 refuse that word, and
// have written none.
func TestRulesInRedisAreThoseOfAllReleases(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	s := NewStore(rdb, "")
	s.timeout = patience
	const written = "version: 1\nrules:\n  - {name: a, limit: 0, per: 1m}\n"
	require.NoError(t, rdb.HSet(t.Context(), s.key, "version", 1, "text", written).Err())
	set, version, err := s.Get(t.Context())
	require.NoError(t, err)
	refuseAll := Rule{Name: "a", RefuseAll: true, Per: Duration(time.Minute)}
	require.Equal(t, []Rule{refuseAll}, set.Rules)
	_, err = s.Put(t.Context(), set.With(Rule{Name: "b", Limit: 1}), version)
	require.NoError(t, err)
	text, err := rdb.HGet(t.Context(), s.key, "text").Result()
	require.NoError(t, err)
	require.NotContains(t, text, "refuse_all")
	set, _, err = s.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Rule{refuseAll, {Name: "b", Limit: 1}}, set.Rules)
}

// TestRulesInRedisWithoutMessages: polling finds changes whose message was lost.
func TestRulesInRedisWithoutMessages(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	s := NewStore(rdb, "")
	s.timeout, s.every = patience, 5*time.Millisecond
	g := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Follow(ctx, g) })
	defer wg.Wait()
	defer cancel()
	text, err := format(Set{Version: 1, Rules: []Rule{{Name: "a", Limit: 3}}})
	require.NoError(t, err)
	require.NoError(t, rdb.HSet(t.Context(), s.key, "version", 1, "text", text).Err())
	require.Eventually(t, func() bool { return len(g.Rules()) == 1 }, patience, time.Millisecond)
}

// TestRuleOnRedisFollowsChanges: two processes share one limit, which changes at run time.
func TestRuleOnRedisFollowsChanges(t *testing.T) {
	rdb := realRedis(t)
	prefix := fmt.Sprintf("test-%d", time.Now().UnixNano())
	newProcess := func() (*Registry, func(string, string, ...func(*http.Request)) response) {
		g := New(Options{User: byHeader, Conn: ratelimit.NewConn(rdb,
			ratelimit.ConnOptions{Prefix: prefix, Timeout: patience})})
		return g, site(g, "shared", "shared-by-user")
	}
	a, postA := newProcess()
	b, postB := newProcess()
	rules := func(n int64) Set {
		return Set{Version: 1, Rules: []Rule{
			{Name: "shared", Limit: n, Per: Duration(time.Hour), Inherit: "in_proportion"},
			{Name: "shared-by-user", Limit: 1000, Per: Duration(time.Hour), Key: "user", Algorithm: "sliding_window"},
		}}
	}
	for _, g := range []*Registry{a, b} {
		require.NoError(t, g.Apply(rules(4)))
	}
	for range 2 {
		require.Equal(t, http.StatusCreated, postA("u", "1").Code)
		require.Equal(t, http.StatusCreated, postB("u", "1").Code)
	}
	require.Equal(t, http.StatusTooManyRequests, postA("u", "1").Code)
	require.Equal(t, http.StatusTooManyRequests, postB("u", "1").Code)
	for _, g := range []*Registry{a, b} {
		require.NoError(t, g.Apply(rules(8)))
	}
	require.Equal(t, http.StatusTooManyRequests, postA("u", "1").Code, "all of 4 spent is all of 8 spent")
	st, err := a.Try(t.Context(), "shared-by-user", "u")
	require.NoError(t, err)
	require.EqualValues(t, 996, st.Remaining)
}

func TestProblemOfTheService(t *testing.T) {
	var got Refusal
	g := New(Options{User: byHeader, RetrySpread: -1, Refuse: func(w http.ResponseWriter, _ *http.Request, f Refusal) {
		got = f
		w.WriteHeader(f.Status())
	}})
	post := site(g, "a")
	require.NoError(t, g.Apply(parse(t, "version: 1\nrules: [{name: a, limit: 1, per: 1h, where: local}]")))
	post("u", "1")
	w := post("u", "1")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, []string{"a"}, got.Violated)
	require.Greater(t, got.RetryAfter, time.Duration(0))
	require.Equal(t, strconv.Itoa(int(math.Ceil(got.RetryAfter.Seconds()))), w.Header().Get("Retry-After"))
}
