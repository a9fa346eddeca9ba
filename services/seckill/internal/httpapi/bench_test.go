package httpapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/admission"
	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/telemetry"
	"flashsale.internal/services/seckill/internal/challenge"
	"flashsale.internal/services/seckill/internal/core"
	"flashsale.internal/services/seckill/internal/room"
)

// soldOut is a gate of a sold-out sale.
type soldOut struct{ core.Purchases }

func (soldOut) Reserve(context.Context, string, core.Purchase) (core.Verdict, error) {
	return core.Verdict{Outcome: core.SoldOut, MayReturnUntil: time.Now().Add(time.Minute)}, nil
}

// BenchmarkPurchase measures the purchase route without the gate and net/http.
func BenchmarkPurchase(b *testing.B) {
	for _, c := range []struct {
		name   string
		gate   core.Purchases
		status int
	}{
		{"accepted", still{}, http.StatusAccepted}, {"sold out", soldOut{}, http.StatusConflict},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newBenchServer(b, c.gate)
			path, err := s.svc.IssuePath(b.Context(), "alice", "7")
			require.NoError(b, err)
			s.post(b, c.status, "/v1/activities/7/paths/"+path.Path+"/reservations", `{"lines":[{"sku_id":"1","qty":1}]}`)
		})
	}
}

// BenchmarkPath measures the path route without net/http.
func BenchmarkPath(b *testing.B) {
	newBenchServer(b, still{}).post(b, http.StatusCreated, "/v1/activities/7/paths", "{}")
}

// benchServer serves the routes with one limiter by user, and a token of one buyer.
type benchServer struct {
	svc     *core.Service
	handler http.Handler
	token   string
}

func newBenchServer(b *testing.B, gate core.Purchases) benchServer {
	b.Helper()
	tel, err := telemetry.Setup(b.Context(), "seckill", "test", telemetry.Options{LogWriter: io.Discard})
	require.NoError(b, err)
	cfg := settings.Auth{Lenient: true, HS256Secrets: []string{strings.Repeat("s", 32)}}
	verifier, err := auth.NewVerifier(cfg, nil)
	require.NoError(b, err)
	seal, err := core.NewSeal("secret")
	require.NoError(b, err)
	sales := core.NewSaleCache(open{}, time.Now)
	rules := filepath.Join(b.TempDir(), "rules.yaml")
	require.NoError(b, os.WriteFile(rules, []byte("version: 1\nrules: [{name: purchase-per-user, key: user, limit: 100000000, where: local}]"), 0o600))
	limits, err := admission.Local(admission.Settings{Rules: rules}, tel)
	require.NoError(b, err)
	svc := core.NewService(core.Deps{
		Purchases: gate, Sales: sales, Feed: core.NewFeed(gate, 1), SNs: open{}, Seal: seal,
		CallerWait: 3 * time.Second,
	})
	h, err := New(Deps{
		Core: svc, Tickets: room.NewTickets(nil, nil, sales, seal),
		Challenges: &challenge.Challenges{Deps: challenge.Deps{Sales: sales}},
		Verifier:   verifier, Limits: limits, Tel: tel,
	})
	require.NoError(b, err)
	token, err := auth.Mint(cfg.HS256Secrets[0], auth.Identity{UserID: "alice"}, time.Hour)
	require.NoError(b, err)
	return benchServer{svc, h, token}
}

// post measures one request, which gets that status.
func (s benchServer) post(b *testing.B, status int, url, text string) {
	b.Helper()
	body := []byte(text)
	base := httptest.NewRequest(http.MethodPost, url, nil)
	base.Header.Set("Authorization", "Bearer "+s.token)
	base.Header.Set("Content-Type", "application/json")
	base.ContentLength = int64(len(body))
	send := func(w http.ResponseWriter) {
		r := *base
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.handler.ServeHTTP(w, &r)
	}
	first := httptest.NewRecorder()
	send(first)
	require.Equal(b, status, first.Code, first.Body)
	b.ReportAllocs()
	for b.Loop() {
		send(nowhere{http.Header{}})
	}
}

type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
