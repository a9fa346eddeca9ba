package inventory

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
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
		Limit, Burst    int64
		Per, Where, Key string
		Lease           float64
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
	require.EqualValues(t, 2, change("PUT", "/path-click", `{"name":"path-click","limit":0,"refuse_all":true,"key":"user"}`))
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
		`{}`: "limit", `{"refuse_all":true}`: "limit", `{"limit":0}`: "rule", `{"limit":0,"refuse_all":false}`: "rule",
		`{"limit":1,"refuse_all":true}`: "rule", `{"limit":1,"per":null}`: "per",
		`{"limit":1,"per":"0s"}`: "per", `{"limit":1,"burst":0}`: "burst", `{"limit":1,"cost":0}`: "cost",
		`{"limit":1,"max_wait":"0s"}`:                          "max_wait",
		`{"limit":1,"algorithm":"sliding_window","buckets":0}`: "buckets",
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

	// PATCH changes what it names, and null removes it. A repetition of the rule's other fields is not needed.
	patch := func(name, body string) { t.Helper(); change("PATCH", "/"+name, body) }
	patch("path-click", `{"limit":5,"key":"user","per":"1m","burst":7}`)
	patch("path-click", `{"per":null,"burst":9}`)
	require.Eventually(t, func() bool {
		l := limit("path-click")
		return l.Rule != nil && l.Rule.Limit == 5 && l.Rule.Per == "" && l.Rule.Burst == 9 && l.Rule.Key == "user"
	}, patience, 10*time.Millisecond)
	patch("path-click", `{"limit":0,"refuse_all":true}`)
	patch("path-total", `{"limit":100}`) // the other fields are those of the file
	require.Eventually(t, func() bool {
		l := limit("path-total")
		return l.Source == "redis" && l.Rule.Limit == 100 && l.Rule.Lease > 0
	}, patience, 10*time.Millisecond)
	for body, field := range map[string]string{
		`{}`: "body", `{"limit":1}`: "rule", `{"refuse_all":null}`: "rule", `{"limit":null}`: "limit", `{"burst":0}`: "burst",
		`{"per":"0s"}`: "per", `{"lmit":1}`: "lmit", `{"name":"other"}`: "name", `{"limit":[1]}`: "limit", `[]`: "body",
		`{"limit":1,"limit":2}`: "limit",
	} {
		require.Equal(t, field, call("PATCH", "/path-click", body).field(), body)
	}
	require.Equal(t, http.StatusNotFound, call("PATCH", "/unknown", `{"limit":1}`).status)
	stale := s.as(operator, "PATCH", "/v1/merchant/limits/path-click", `{"limit":1,"refuse_all":null}`, "If-Match", `"1"`)
	require.Equal(t, http.StatusPreconditionFailed, stale.status)
	patch("path-click", `{"limit":1,"refuse_all":null}`)

	// The changes of a limit are listed with the rules before and after them.
	type entry struct {
		Actor, Role, What string
		At                time.Time
		Details           struct{ Before, After map[string]any }
	}
	type entries struct {
		Items      []entry
		NextCursor string `json:"next_cursor"`
	}
	var all []entry
	for path := "/path-click/changes?limit=2"; path != ""; {
		var page entries
		got := call("GET", path, "")
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		got.into(t, &page)
		all = append(all, page.Items...)
		if path = ""; page.NextCursor != "" {
			path = "/path-click/changes?limit=2&cursor=" + page.NextCursor
		}
	}
	require.Len(t, all, 7)
	for i, after := range all[1:] {
		require.Equal(t, after.Details.After, all[i].Details.Before, "each begins where the one before it ended")
	}
	require.Equal(t, "operator-1", all[0].Actor)
	require.Equal(t, "operator", all[0].Role)
	require.Equal(t, "limit.put", all[0].What)
	require.Equal(t, true, all[0].Details.Before["refuse_all"])
	require.EqualValues(t, 1, all[0].Details.After["limit"])
	require.Equal(t, "limit.revert", all[4].What)
	require.Nil(t, all[4].Details.After, "no file has it")
	require.Nil(t, all[6].Details.Before)
	var others entries
	call("GET", "/path-total/changes", "").into(t, &others)
	require.Len(t, others.Items, 3)
	require.Nil(t, others.Items[2].Details.After, "it was deleted")
	require.NotNil(t, others.Items[1].Details.After, "the file's, after the revert")
	require.Equal(t, http.StatusNotFound, call("GET", "/unknown/changes", "").status)
	require.Equal(t, "cursor", call("GET", "/path-click/changes?cursor=%21", "").field())
	require.Equal(t, "forbidden", s.do("GET", "/v1/merchant/limits/path-click/changes", "").code())

	// Changes of several limits at once meet conflicts. Each is recorded once.
	count := func() (n int64) {
		require.NoError(t, s.db.Table("changes").Where("object = 'limit'").Count(&n).Error)
		return n
	}
	before := count()
	var made atomic.Int64
	var wg sync.WaitGroup
	for _, name := range []string{"path-click", "path-total", "order-per-user"} {
		wg.Go(func() {
			for i := range 5 {
				if got := call("PATCH", "/"+name, fmt.Sprintf(`{"limit":%d}`, 20+i)); got.status == http.StatusOK {
					made.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 15, made.Load())
	require.Equal(t, made.Load(), count()-before)

	// A change that cannot be recorded or stored is refused.
	s.mini.Close()
	require.Equal(t, "unavailable", call("DELETE", "/path-total", "").code())
	require.Equal(t, "unavailable", call("GET", "", "").code())
}
