package inventory

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/lifecycle"
	"flashsale.internal/pkg/settings"
)

type limitState struct {
	Name   string
	Source string
	Rule   *struct {
		Limit int64
		Per   string
		Where string
	}
	Allowed, Refused int64
	Limited          []struct {
		Key     string
		Refused int64
	}
}

// withLimits replaces the service by one with limits, and runs them.
func (s *shop) withLimits(of admission.Settings) {
	s.t.Helper()
	tel := s.svc.deps.Telemetry
	limits, err := admission.New(of, settings.Redis{Addrs: []string{s.mini.Addr()}}, tel)
	require.NoError(s.t, err)
	deps := s.svc.deps
	deps.Limits = limits
	s.svc, err = New(s.svc.cfg, deps)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = lifecycle.Run(ctx, tel.Log, 30*time.Second, limits.Components()...) })
	s.t.Cleanup(func() { cancel(); wg.Wait() })
}

func TestLimitsAreListedTestedAndChanged(t *testing.T) {
	t.Parallel()
	const patience = 30 * time.Second
	s := newShop(t)
	operator := s.mint("operator-1", auth.Operator)
	call := func(method, path, body string) response {
		return s.as(operator, method, "/v1/merchant/limits"+path, body)
	}
	require.Equal(t, "unavailable", call("GET", "", "").code(), "without Redis there are none")

	s.withLimits(admission.Settings{})

	require.Equal(t, "forbidden", s.do("GET", "/v1/merchant/limits", "").code(), "operators only")
	var list struct {
		Items      []limitState
		Version    int64
		NextCursor string `json:"next_cursor"`
	}
	got := call("GET", "?limit=5", "")
	got.into(t, &list)
	require.Len(t, list.Items, 5)
	require.NotEmpty(t, got.header.Get("RateLimit"), "the route is limited itself")
	names := map[string]string{}
	for {
		for _, l := range list.Items {
			names[l.Name] = l.Source
		}
		if list.NextCursor == "" {
			break
		}
		cursor := list.NextCursor
		list.NextCursor = ""
		call("GET", "?limit=5&cursor="+cursor, "").into(t, &list)
	}
	require.Len(t, names, len(admission.Names()))
	require.Equal(t, "file", names["path-total"])
	require.Equal(t, "none", names["path-click"], "declared by a route, and no rule here")
	require.Equal(t, "invalid_request", call("GET", "?cursor=%21", "").code())

	// The time-out of Redis is short; a busy machine may exceed it.
	read := func(method, path, body string) (got response) {
		require.Eventually(t, func() bool {
			got = call(method, path, body)
			return got.status != http.StatusServiceUnavailable
		}, patience, 10*time.Millisecond)
		return got
	}
	limit := func(name string) (l limitState) {
		got := read("GET", "/"+name, "")
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		got.into(t, &l)
		return l
	}
	source := func(name, is string) {
		t.Helper()
		require.Eventually(t, func() bool { return limit(name).Source == is }, patience, 10*time.Millisecond)
	}
	require.Equal(t, http.StatusNotFound, call("GET", "/unknown", "").status)
	require.EqualValues(t, 4000, limit("path-total").Rule.Limit)

	// A limit is tested, changed, disabled and restored.
	try := func(name, key string) response { return read("POST", "/"+name+"/try", `{"key":"`+key+`"}`) }
	require.Equal(t, "state_conflict", try("order-per-user", "u").code(), "a local limit has no shared state")
	change := func(method, path, body string) (version int64) {
		t.Helper()
		got := call(method, path, body)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		var c struct {
			Name    string
			Version int64
		}
		got.into(t, &c)
		return c.Version
	}
	require.EqualValues(t, 1, change("PUT", "/path-click", `{"algorithm":"gcra","limit":1,"per":"1m","burst":1,"key":"user"}`))
	source("path-click", "redis")
	var decision struct {
		Allowed   bool
		Remaining int64
	}
	try("path-click", "u").into(t, &decision)
	require.True(t, decision.Allowed)
	require.EqualValues(t, 1, decision.Remaining)
	require.EqualValues(t, 2, change("PUT", "/path-click", `{"name":"path-click","limit":0,"key":"user"}`))
	require.Eventually(t, func() bool {
		got := try("path-click", "u")
		got.into(t, &decision)
		return !decision.Allowed
	}, patience, 10*time.Millisecond, "no call passes")
	require.EqualValues(t, 3, change("DELETE", "/path-total", ""))
	require.Eventually(t, func() bool { return limit("path-total").Rule == nil }, patience, 10*time.Millisecond)
	source("path-total", "redis")
	require.Equal(t, http.StatusNotFound, try("path-total", "").status)
	require.EqualValues(t, 4, change("POST", "/path-total/revert", ""))
	source("path-total", "file")
	require.EqualValues(t, 5, change("POST", "/path-click/revert", ""))
	source("path-click", "none")

	for body, field := range map[string]string{
		`{"limit":-1}`: "rule", `{"limit":1,"lmit":2}`: "lmit", `{"name":"other","limit":1}`: "name", `{"limit":1,"key":"shoe"}`: "rule",
		`{"limit":"1"}`: "limit", `{"limit":1,"per":"soon"}`: "per",
	} {
		require.Equal(t, field, call("PUT", "/path-click", body).field(), body)
	}
	require.Equal(t, "key", call("POST", "/path-total/try", `{}`).field())
	for _, method := range []string{"PUT", "DELETE"} {
		require.Equal(t, http.StatusNotFound, call(method, "/unknown", `{"limit":1}`).status)
	}

	// Each change is in the change log, with its actor.
	var records []struct{ Who, Action, Detail string }
	require.NoError(t, s.db.Table("changes").Where("object = 'limit'").Order("id").Find(&records).Error)
	require.Len(t, records, 5)
	require.Equal(t, "operator-1", records[0].Who)
	require.Equal(t, "limit.put", records[0].Action)
	require.Contains(t, records[0].Detail, `"name":"path-click"`)
	require.Contains(t, records[0].Detail, `"per":"1m0s"`)
	require.Equal(t, "limit.delete", records[2].Action)
	require.Equal(t, "limit.revert", records[3].Action)

	// A change that cannot be recorded or stored is refused.
	s.mini.Close()
	require.Equal(t, "unavailable", call("DELETE", "/path-total", "").code())
	require.Equal(t, "unavailable", call("GET", "", "").code())
}
