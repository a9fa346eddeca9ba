package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/room"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// still is a gate whose purchases stay queued.
type still struct{ core.Purchases }

func (still) Allowance(context.Context, string, string) (core.Allowance, error) {
	return core.Allowance{}, nil
}

func (still) Reserve(_ context.Context, activityID string, p core.Purchase) (core.Verdict, error) {
	return core.Verdict{Outcome: core.Accepted, Reservation: reservation(activityID, p.OrderSN)}, nil
}

func (still) Lookup(_ context.Context, activityID, orderSN string) (core.Reservation, bool, error) {
	return reservation(activityID, orderSN), true, nil
}

func reservation(activityID, orderSN string) core.Reservation {
	return core.Reservation{ActivityID: activityID, OrderSN: orderSN, UserID: "alice", Status: core.StatusQueued}
}

// open is a catalogue with one open sale.
type open struct{}

func (open) Sale(_ context.Context, id string) (core.Sale, error) {
	return core.Sale{ActivityID: id}, nil
}
func (open) Sales(context.Context) ([]core.Sale, error) { return nil, nil }
func (open) GateStates(_ context.Context, ids []string) (map[string]core.GateState, error) {
	now := time.Now()
	return map[string]core.GateState{ids[0]: {
		State: core.StateOpen, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), Left: map[string]int64{"1": 1},
	}}, nil
}
func (open) Ready(context.Context) (bool, error)    { return true, nil }
func (open) Now(context.Context) (time.Time, error) { return time.Now(), nil }
func (open) Next(string) (string, error)            { return "5", nil }
func (open) Belongs(string, string) bool            { return true }
func (open) IssuedAt(string) time.Time              { return time.Time{} }

// streams returns a handler where alice's purchase stays queued, and the URL of its events.
func streams(t *testing.T, most int, s admission.Settings) (handler http.Handler, feed *core.Feed, url string) {
	t.Helper()
	cfg := settings.Auth{Lenient: true, HS256Secrets: []string{strings.Repeat("s", 32)}}
	verifier, err := auth.NewVerifier(cfg, nil)
	require.NoError(t, err)
	seal, err := core.NewSeal("secret")
	require.NoError(t, err)
	limits, err := admission.Local(s, telemetry.Discard(t))
	require.NoError(t, err)
	feed = core.NewFeed(still{}, most)
	sales := core.NewSaleCache(open{}, time.Now)
	handler, err = New(Deps{
		Tickets: room.NewTickets(nil, nil, sales, seal), Challenges: &challenge.Challenges{Deps: challenge.Deps{Sales: sales}},
		Core: core.NewService(core.Deps{
			Purchases: still{}, Sales: sales, Feed: feed, SNs: open{}, Seal: seal, CallerWait: time.Second,
		}),
		Verifier: verifier, Limits: limits, Tel: telemetry.Discard(t),
	})
	require.NoError(t, err)
	token, err := auth.Mint(cfg.HS256Secrets[0], auth.Identity{UserID: "alice"}, time.Hour)
	require.NoError(t, err)
	post := func(path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	path := field(t, post("/v1/activities/7/paths", "").Body.String(), "path")
	bought := post("/v1/activities/7/paths/"+path+"/reservations", `{"lines":[{"sku_id":"1","qty":1}]}`)
	require.Equal(t, http.StatusAccepted, bought.Code, bought.Body)
	return handler, feed, field(t, bought.Body.String(), "events_url")
}

// The stream of a purchase that does not change: its status, a comment every 15 s, and the end after 60 s.
func TestStreamEndsAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, feed, url := streams(t, 10, admission.Settings{})
		began := time.Now()
		got := httptest.NewRecorder()
		handler.ServeHTTP(got, httptest.NewRequest(http.MethodGet, url, nil))
		require.Equal(t, time.Minute, time.Since(began))
		body := regexp.MustCompile(`ticket=[^"]+`).ReplaceAllString(got.Body.String(), "ticket=x")
		require.Equal(t, "retry: 2000\n\n"+
			`event: status`+"\n"+`data: {"activity_id":"7","events_url":"/v1/activities/7/reservations/5/events?ticket=x","lines":[],`+
			`"order_sn":"5","status":"queued"}`+"\n\n"+
			": \n\n: \n\n: \n\n"+
			"event: end\ndata: {}\n\n", strings.Replace(body, ": \n\n: \n\n: \n\n: \n\n", ": \n\n: \n\n: \n\n", 1))
		require.True(t, got.Flushed)
		require.Zero(t, feed.Open())
	})
}

// deadlines counts how often a deadline of a connection was lifted.
type deadlines struct {
	*httptest.ResponseRecorder
	lifted int
}

func (d *deadlines) SetReadDeadline(at time.Time) error  { return d.set(at) }
func (d *deadlines) SetWriteDeadline(at time.Time) error { return d.set(at) }

func (d *deadlines) set(at time.Time) error {
	if at.IsZero() {
		d.lifted++
	}
	return nil
}

// The deadlines of a connection stay until ticket, limits and the bound of streams have been checked.
func TestOnlyAnOpenedStreamLiftsDeadlines(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("version: 1\nrules: [{name: events-per-ip, key: header:Caller, limit: 1, per: 1h}]"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		handler, feed, url := streams(t, 1, admission.Settings{Rules: rules})
		get := func(method, url, caller string) (status, lifted int) {
			r := httptest.NewRequest(method, url, nil)
			r.Header.Set("Caller", caller)
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			handler.ServeHTTP(w, r)
			return w.Code, w.lifted
		}
		refused := func(want int, url, caller string) {
			t.Helper()
			status, lifted := get(http.MethodGet, url, caller)
			require.Equal(t, want, status)
			require.Zero(t, lifted)
		}
		plain, _, _ := strings.Cut(url, "?")
		refused(http.StatusUnauthorized, plain, "one")
		refused(http.StatusTooManyRequests, url, "one")
		refused(http.StatusNotFound, strings.Replace(url, "/7/", "/x/", 1), "two")
		status, lifted := get(http.MethodHead, url, "three")
		require.Equal(t, []int{http.StatusOK, 0}, []int{status, lifted}, "HEAD has no stream")

		var open sync.WaitGroup
		open.Go(func() {
			status, lifted := get(http.MethodGet, url, "four")
			assert.Equal(t, []int{http.StatusOK, 2}, []int{status, lifted})
		})
		synctest.Wait()
		require.Equal(t, 1, feed.Open())
		refused(http.StatusServiceUnavailable, url, "five")
		open.Wait()
	})
}

func field(t *testing.T, body, name string) string {
	t.Helper()
	_, after, ok := strings.Cut(body, `"`+name+`":"`)
	require.True(t, ok, body)
	value, _, _ := strings.Cut(after, `"`)
	return value
}
