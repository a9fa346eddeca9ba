package rules

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/ratelimit"
)

func TestStatsOfAllProcesses(t *testing.T) {
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	s := NewStore(rdb, "")
	s.timeout = patience
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, instance := range []string{"a", "b"} {
		g := New(Options{User: byHeader})
		require.NoError(t, g.Apply(parse(t, good)))
		post := site(g, "path-per-user")
		for range 2 {
			require.Equal(t, http.StatusCreated, post("u", "1").Code)
		}
		for range 3 {
			require.Equal(t, http.StatusTooManyRequests, post("u", "1").Code)
		}
		require.Equal(t, http.StatusCreated, post(instance, "1").Code)
		wg.Go(func() { _ = s.Publish(ctx, g, instance) })
	}
	require.Eventually(t, func() bool { _, n, err := s.Overview(t.Context()); return err == nil && n == 2 },
		patience, time.Millisecond)
	all, _, err := s.Overview(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1, "rules that had nothing to decide are left out")
	sum := all["path-per-user"]
	require.EqualValues(t, 6, sum.Allowed)
	require.EqualValues(t, 6, sum.Refused)
	require.Len(t, sum.Limited, 1)
	require.Equal(t, "u|1", sum.Limited[0].Key)
	require.EqualValues(t, 6, sum.Limited[0].Refused)

	// A process that was killed is left out, and its statistics are deleted.
	stale := []any{"killed", `{"at":"2001-01-01T00:00:00Z"}`, "damaged", "?"}
	require.NoError(t, rdb.HSet(t.Context(), s.statsKey(), stale...).Err())
	_, n, err := s.Overview(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, n)
	left, err := rdb.HLen(t.Context(), s.statsKey()).Result()
	require.NoError(t, err)
	require.EqualValues(t, 2, left)

	// A process that stops deletes its statistics.
	cancel()
	wg.Wait()
	_, n, err = s.Overview(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestRulesByRoute(t *testing.T) {
	g := New(Options{Route: func(r *http.Request) string { return r.Header.Get("Route") }, User: byHeader})
	require.NoError(t, g.Apply(parse(t, "version: 1\n"+
		"rules: [{name: a, limit: 1, per: 1h, key: user+route, where: local}]")))
	h := g.On("a")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	ask := func(route string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Route", route)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, http.StatusCreated, ask("x"))
	require.Equal(t, http.StatusCreated, ask("y"))
	require.Equal(t, http.StatusTooManyRequests, ask("x"))
}

// Options.Edit applies to the rules of the file, whenever it is read, and not to rules in Redis.
func TestEditChangesTheFile(t *testing.T) {
	var waited sync.Map
	g := New(Options{
		Edit: func(s *Set) {
			for i := range s.Rules {
				if s.Rules[i].Name == "path-total" {
					s.Rules[i].Limit = 20
				}
			}
		},
		ObserveWait: func(rule string, wait time.Duration) { waited.Store(rule, wait) },
	})
	path := filepath.Join(t.TempDir(), "rules.yaml")
	text := "version: 1\nrules: [{name: path-total, limit: 1, burst: 1, max_wait: 10s, where: local}]"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, g.Load(path))
	require.EqualValues(t, 20, g.Rules()[0].Limit)
	set := parse(t, text)
	require.True(t, g.holds(set), "so that it is not reloaded")
	require.EqualValues(t, 1, set.Rules[0].Limit, "the caller's own are left alone")
	post := site(g, "path-total")
	var wait any
	for range 200 { // a slow machine earns the next permit without a wait
		require.Equal(t, http.StatusCreated, post("", "1").Code)
		if w, ok := waited.Load("path-total"); ok {
			wait = w
			break
		}
	}
	require.Positive(t, wait)
	require.NoError(t, g.Overlay(Set{Version: 1, Rules: []Rule{{Name: "path-total", Limit: 30}}}))
	require.EqualValues(t, 30, g.Rules()[0].Limit)
}

// The refusal and the remaining permits may be of two moments: a lease was used up by other requests, and one of them
// returned permits.
func TestRefusalReportsNothingLeft(t *testing.T) {
	item := func(r Rule, res ratelimit.Result) string { return string(appendLimit(nil, &active{rule: r}, &res)) }
	refused := ratelimit.Result{Remaining: 6, RetryAfter: time.Second, ResetAfter: time.Minute}
	require.Equal(t, `"a";r=0;t=1`, item(Rule{Name: "a"}, refused))
	require.Equal(t, `"a";r=6;t=1`, item(Rule{Name: "a", Cost: 7}, refused), "too few for what it costs")
	require.Equal(t, `"a";r=6;t=60`, item(Rule{Name: "a"},
		ratelimit.Result{Allowed: true, Remaining: 6, ResetAfter: time.Minute}))
}
