package cli_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

func TestReconcilePrintsRepairsAndDifferences(t *testing.T) {
	responses := map[string]string{
		"1": `{"looked_at":"2026-11-21T10:05:00Z","repairs":[],"differences":[]}`,
		"2": `{"looked_at":"2026-11-21T10:05:00Z","repairs":[{"order_sn":"77","sku_id":"5","delta":1,"why":"expired"},{"sku_id":"","delta":0,"why":"allowance"}],"differences":[]}`,
		"3": `{"looked_at":"2026-11-21T10:05:00Z","repairs":[],"differences":[{"sku_id":"5","delta":-2,"why":"unknown"}]}`,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/merchant/activities/{id}/reconciliations", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(responses[r.PathValue("id")]))
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Setenv("BASE_URL", srv.URL)
	t.Setenv("AUTH_HS256_SECRET", settings.DevelopmentAuthSecret)

	status, out, errs := run(t, "reconcile", "1")
	require.Zero(t, status, errs)
	require.Equal(t, "0 repairs, 0 left, compared at 2026-11-21T10:05:00Z\n", out)

	status, out, errs = run(t, "reconcile", "2")
	require.Zero(t, status, errs)
	require.Regexp(t, `ORDER_SN +SKU +DELTA +WHY`, out)
	require.Regexp(t, `repaired +77 +5 +\+1 +expired`, out)
	require.Regexp(t, `repaired +- +- +\+0 +allowance`, out)
	require.Contains(t, out, "2 repairs, 0 left")

	status, out, errs = run(t, "reconcile", "3")
	require.Equal(t, 1, status)
	require.Regexp(t, `left +- +5 +-2 +unknown`, out)
	require.Contains(t, errs, "differences were not repaired")
}
