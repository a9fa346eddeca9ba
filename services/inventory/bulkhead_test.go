package inventory

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
)

// latch blocks the queries of each request until it is opened, or the request's context ends.
type latch struct {
	opened chan struct{}

	mu   sync.Mutex
	held int
}

func (d *latch) query(tx *gorm.DB) {
	ctx := tx.Statement.Context
	if ctx.Value(http.ServerContextKey) == nil { // the query of a loop
		return
	}
	d.mu.Lock()
	d.held++
	d.mu.Unlock()
	select {
	case <-d.opened:
	case <-ctx.Done():
		_ = tx.AddError(ctx.Err())
	}
	d.mu.Lock()
	d.held--
	d.mu.Unlock()
}

func (d *latch) holds() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held
}

// Requests that hold connections for long are limited to a few at a time. A place is free again when its request has
// ended, however it ended.
func TestConcurrentExportsAndReconciliationsAreLimited(t *testing.T) {
	t.Parallel()
	const patience = 20 * time.Second
	for rule, c := range map[string]struct{ method, path, accept string }{
		"merchant-export":    {http.MethodGet, "/orders", "text/csv"},
		"merchant-reconcile": {http.MethodPost, "/reconciliations", ""},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newShop(t)
			operator := s.mint("operator-1", auth.Operator)
			var ids []string // reconciliations of one activity wait for each other
			for range 6 {
				ids = append(ids, s.draft(s.product("EUR")[0], 5))
			}
			file := filepath.Join(t.TempDir(), "rules.yaml")
			require.NoError(t, os.WriteFile(file, []byte("version: 1\nrules: [{name: "+rule+", algorithm: concurrency, limit: 2, where: local}]"), 0o600))
			limits, err := admission.Local(admission.Settings{Rules: file}, s.svc.deps.Telemetry)
			require.NoError(t, err)
			deps := s.svc.deps
			deps.Limits = limits
			s.svc, err = New(s.svc.cfg, deps)
			require.NoError(t, err)
			d := &latch{opened: make(chan struct{})}
			require.NoError(t, s.db.Callback().Query().Before("gorm:query").Register("test:latch", d.query))
			server := httptest.NewServer(s.svc.Handler())
			defer server.Close()

			call := func(ctx context.Context, id, accept string) (response, error) {
				r, err := http.NewRequestWithContext(ctx, c.method, server.URL+"/v1/merchant/activities/"+id+c.path, nil)
				if err != nil {
					return response{}, err
				}
				r.Header.Set("Authorization", "Bearer "+operator)
				r.Header.Set("Accept", accept)
				resp, err := server.Client().Do(r)
				if err != nil {
					return response{}, err
				}
				defer resp.Body.Close()
				var body json.RawMessage
				_ = json.NewDecoder(resp.Body).Decode(&body) // CSV does not decode
				return response{resp.StatusCode, resp.Header, body}, nil
			}
			refused := func(id string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				got, err := call(ctx, id, c.accept)
				require.NoError(t, err, "it was let in")
				require.Equal(t, http.StatusTooManyRequests, got.status, "%s", got.body)
				require.Equal(t, "rate_limited", got.code())
				require.Contains(t, string(got.body), `"violated_policies":["`+rule+`"]`)
				require.NotEmpty(t, got.header.Get("Retry-After"))
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			ended := make(chan int, len(ids))
			begin := func(ctx context.Context, id, accept string) {
				wg.Go(func() {
					got, _ := call(ctx, id, accept)
					ended <- got.status // 0: the client disconnected
				})
			}
			hold := func(n int) {
				t.Helper()
				require.Eventually(t, func() bool { return d.holds() == n }, patience, 5*time.Millisecond)
			}

			leaving, leave := context.WithCancel(t.Context())
			defer leave()
			begin(t.Context(), ids[0], c.accept)
			begin(leaving, ids[1], c.accept)
			hold(2)
			refused(ids[2])
			if c.accept != "" { // a page in JSON is not an export
				begin(t.Context(), ids[5], "")
				hold(3)
			}
			held := d.holds()

			leave()
			require.Zero(t, <-ended)
			hold(held - 1)
			require.Eventually(t, func() bool { // the query returns before the place is free
				begin(t.Context(), ids[3], c.accept)
				for range 400 {
					if d.holds() == held {
						return true
					}
					select {
					case status := <-ended:
						require.Equal(t, http.StatusTooManyRequests, status)
						return false
					case <-time.After(5 * time.Millisecond):
					}
				}
				return false
			}, patience, 5*time.Millisecond, "a disconnected client frees its place")
			refused(ids[2])

			close(d.opened)
			for range held {
				require.Equal(t, http.StatusOK, <-ended)
			}
			got, err := call(t.Context(), ids[4], c.accept)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, got.status, "who has ended left a place: %s", got.body)
		})
	}
}

// The production rules leave places for exports to other merchants while one merchant uses all of its own.
func TestConcurrentExportsOfAMerchantLeavePlaces(t *testing.T) {
	t.Parallel()
	const patience = 20 * time.Second
	s := newShop(t)
	limits, err := admission.Local(admission.Settings{Rules: "../../pkg/admission/rules.yaml"}, s.svc.deps.Telemetry)
	require.NoError(t, err)
	deps := s.svc.deps
	deps.Limits = limits
	s.svc, err = New(s.svc.cfg, deps)
	require.NoError(t, err)
	export := func(token, activityID string) response {
		r := httptest.NewRequest(http.MethodGet, "/v1/merchant/activities/"+activityID+"/orders", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Accept", "text/csv")
		w := httptest.NewRecorder()
		s.svc.Handler().ServeHTTP(w, r.WithContext(context.WithValue(t.Context(), http.ServerContextKey, t)))
		return response{w.Code, w.Header(), w.Body.Bytes()}
	}
	type user struct{ token, activityID string }
	var users []user // two of each of three merchants
	for _, merchant := range []string{"m-1", "m-2", "m-3"} {
		s.token = s.mintFor(merchant, "a", auth.Merchant)
		activityID := s.draft(s.product("EUR")[0], 5)
		users = append(users, user{s.token, activityID}, user{s.mintFor(merchant, "b", auth.Merchant), activityID})
	}
	d := &latch{opened: make(chan struct{})}
	require.NoError(t, s.db.Callback().Query().Before("gorm:query").Register("test:latch", d.query))
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan response, 4)
	hold := func(users []user) {
		t.Helper()
		want := d.holds() + len(users)
		for _, u := range users {
			wg.Go(func() { ended <- export(u.token, u.activityID) })
		}
		require.Eventually(t, func() bool { return d.holds() == want }, patience, 5*time.Millisecond)
	}
	refused := func(token, activityID, rule string) {
		t.Helper()
		got := export(token, activityID)
		require.Equal(t, http.StatusTooManyRequests, got.status, "%s", got.body)
		require.Contains(t, string(got.body), `"violated_policies":["`+rule+`"]`)
	}
	hold(users[:2])
	refused(s.mintFor("m-1", "c", auth.Merchant), users[0].activityID, "merchant-export-per-merchant")
	hold(users[2:4])
	refused(users[4].token, users[4].activityID, "merchant-export")
	close(d.opened)
	for range 4 {
		require.Equal(t, http.StatusOK, (<-ended).status)
	}
	require.Equal(t, http.StatusOK, export(users[4].token, users[4].activityID).status)
}
