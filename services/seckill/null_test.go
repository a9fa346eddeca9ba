package seckill_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/apitest"
	"flashsale.internal/pkg/contract"
)

func TestNullIsRefusedInEveryBody(t *testing.T) {
	r := newRig(t, setup{})
	p := r.path("u1", r.sale(1))
	parameters := strings.NewReplacer("{activity_id}", p.activity, "{path}", p.path)
	for _, req := range apitest.NullFields(t, "api/openapi.yaml") {
		got := r.call(req.Method, parameters.Replace(req.Path), p.token, req.Body)
		got.is(r, http.StatusBadRequest, contract.CodeInvalidRequest)
		errors, _ := got.body["errors"].([]any)
		require.Len(r, errors, 1, "%+v -> %s", req, got.raw)
		require.Equal(r, req.Field, errors[0].(map[string]any)["field"], "%+v -> %s", req, got.raw)
	}
}
