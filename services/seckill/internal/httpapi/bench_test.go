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
	"flashsale.internal/services/seckill/internal/core"
)

// soldOut is a gate of a sold-out sale.
type soldOut struct{ core.Gate }

func (soldOut) Reserve(context.Context, string, core.Purchase) (core.Verdict, error) {
	return core.Verdict{Outcome: core.SoldOut, MayReturnUntil: time.Now().Add(time.Minute)}, nil
}

// BenchmarkPurchase measures the purchase route without the gate and net/http.
func BenchmarkPurchase(b *testing.B) {
	for name, gate := range map[string]core.Gate{"accepted": still{}, "sold out": soldOut{}} {
		b.Run(name, func(b *testing.B) {
			tel, err := telemetry.Setup(b.Context(), "seckill", "test", telemetry.Options{LogWriter: io.Discard})
			require.NoError(b, err)
			cfg := settings.Auth{HS256Secrets: []string{strings.Repeat("s", 32)}}
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
				Gate: gate, Sales: sales, Feed: core.NewFeed(gate, 1), SNs: open{}, Seal: seal,
				CallerWait: 3 * time.Second,
			})
			h, err := New(Deps{Core: svc, Verifier: verifier, Limits: limits, Tel: tel, OpenStreams: func() int { return 0 }})
			require.NoError(b, err)
			path, err := svc.IssuePath(b.Context(), "alice", "7")
			require.NoError(b, err)
			token, err := auth.Mint(cfg.HS256Secrets[0], auth.Identity{UserID: "alice"}, time.Hour)
			require.NoError(b, err)
			body := []byte(`{"lines":[{"sku_id":"1","qty":1}]}`)
			base := httptest.NewRequest(http.MethodPost, "/v1/activities/7/paths/"+path.Path+"/reservations", nil)
			base.Header.Set("Authorization", "Bearer "+token)
			base.Header.Set("Content-Type", "application/json")
			base.ContentLength = int64(len(body))
			b.ReportAllocs()
			for b.Loop() {
				r := *base
				r.Body = io.NopCloser(bytes.NewReader(body))
				w := nowhere{http.Header{}}
				h.ServeHTTP(w, &r)
			}
		})
	}
}

type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
