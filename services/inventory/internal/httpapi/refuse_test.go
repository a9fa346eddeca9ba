package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/telemetry"
)

// A transient error gets 503 with Retry-After, also when the request has exceeded its time-out.
func TestATransientErrorIsUnavailable(t *testing.T) {
	m := &Merchant{tel: telemetry.Discard(t), transient: func(error) bool { return true }}
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"in time": t.Context(), "time-out exceeded": expired} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			m.refuse(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/merchant/products", nil),
				errors.New("circuit breaker is open"))
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Contains(t, w.Body.String(), string(contract.CodeUnavailable))
			require.NotEmpty(t, w.Header().Get("Retry-After"))
		})
	}
}
