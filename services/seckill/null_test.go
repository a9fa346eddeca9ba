package seckill_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/apitest"
	"flashsale.internal/pkg/contract"
)

func TestNullIsRefusedInEveryBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	p := r.path("u1", r.sale(1))
	parameters := strings.NewReplacer("{activity_id}", p.activity, "{path}", p.path)
	challenged := withCaptcha(r, contract.ChallengePow, -time.Minute)
	for _, req := range apitest.NullFields(t, "api/openapi.yaml") {
		if strings.Contains(req.Path, "/captchas") {
			req.Path = strings.Replace(req.Path, "{activity_id}", challenged.id, 1)
		}
		got := r.call(req.Method, parameters.Replace(req.Path), p.token, req.Body)
		got.is(r, http.StatusBadRequest, contract.CodeInvalidRequest)
		errors, _ := got.body["errors"].([]any)
		require.Len(r, errors, 1, "%+v -> %s", req, got.raw)
		require.Equal(r, req.Field, errors[0].(map[string]any)["field"], "%+v -> %s", req, got.raw)
	}
}
