package order_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/apitest"
	"flashsale.internal/pkg/settings"
	"flashsale.internal/services/order"
	"flashsale.internal/services/order/internal/ordertest"
)

func TestNullIsRefusedInEveryBody(t *testing.T) {
	t.Parallel()
	r := run(t, ordertest.MariaDB(t))
	refused := func(req apitest.Request, got response) {
		require.Equal(t, http.StatusBadRequest, got.status, "%+v -> %s", req, got.raw)
		require.Equal(t, "invalid_request", got.code(), "%+v", req)
		errors, _ := got.body["errors"].([]any)
		require.Len(t, errors, 1, "%+v -> %s", req, got.raw)
		require.Equal(t, req.Field, errors[0].(map[string]any)["field"], "%+v -> %s", req, got.raw)
	}
	parameters := strings.NewReplacer("{order_sn}", r.deduction("u1").OrderSN, "{payment_id}", "1")
	for _, req := range apitest.NullFields(t, "api/openapi.yaml") {
		if strings.HasPrefix(req.Path, "/v1/payments/callbacks/") {
			refused(req, r.callback(order.DevelopmentSandboxSecret, time.Now(), req.Body))
			continue
		}
		refused(req, r.call(req.Method, parameters.Replace(req.Path), "u1", req.Body, "Idempotency-Key", "k"))
	}
	for _, req := range apitest.NullFields(t, "api/internalapi/openapi.yaml") {
		refused(req, r.callInternal(req.Path, settings.DevelopmentInternalSecret, req.Body))
	}
}
