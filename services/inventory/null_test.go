package inventory

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/apitest"
	"flashsale.internal/pkg/auth"
)

func TestNullIsRefusedInEveryBody(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	operator := s.mint("operator-1", auth.Operator)
	parameters := strings.NewReplacer("{product_id}", "1", "{activity_id}", "1", "{limit_name}", "merchant-per-ip",
		"{refund_id}", "1", "{ref}", "1", "{webhook_id}", "1")
	for _, r := range apitest.NullFields(t, "api/openapi.yaml") {
		got := s.as(operator, r.Method, parameters.Replace(r.Path), r.Body, "Idempotency-Key", "k")
		require.Equal(t, http.StatusBadRequest, got.status, "%+v -> %s", r, got.body)
		require.Equal(t, "invalid_request", got.code(), "%+v", r)
		require.Equal(t, r.Field, got.field(), "%+v -> %s", r, got.body)
	}
}
