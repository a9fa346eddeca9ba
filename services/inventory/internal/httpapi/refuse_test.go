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

// What may succeed later is told so, also when the request's own time ran out over it.
func TestWhatMaySucceedLaterIsNoFault(t *testing.T) {
	m := &Merchant{tel: telemetry.Discard(t), transient: func(error) bool { return true }}
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"in time": t.Context(), "its time is over": over} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			m.refuse(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/merchant/products", nil), errors.New("the database is not asked at present"))
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Contains(t, w.Body.String(), string(contract.CodeUnavailable))
			require.NotEmpty(t, w.Header().Get("Retry-After"))
		})
	}
}
