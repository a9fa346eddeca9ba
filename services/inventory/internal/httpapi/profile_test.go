package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/auth"
	"flashsale.internal/pkg/telemetry"
)

func TestWhoseProfileACallIsAbout(t *testing.T) {
	m := &Merchant{tel: telemetry.Discard(t), transient: func(error) bool { return false }}
	merchant := auth.Identity{UserID: "u", Roles: []auth.Role{auth.Merchant}, MerchantID: "one"}
	operator := auth.Identity{UserID: "u", Roles: []auth.Role{auth.Operator}}
	ofTwo := auth.Identity{UserID: "u", Roles: []auth.Role{auth.Operator}, MerchantID: "two"}
	for _, c := range []struct {
		name   string
		caller auth.Identity
		query  string
		want   string // "" for a refusal
		status int
	}{
		{"a merchant's own", merchant, "", "one", 200},
		{"a merchant's own by name", merchant, "?merchant_id=one", "one", 200},
		{"another merchant's", merchant, "?merchant_id=two", "", 403},
		{"an operator's merchant", ofTwo, "", "two", 200},
		{"any merchant's, for an operator", ofTwo, "?merchant_id=one", "one", 200},
		{"an operator of no merchant", operator, "", "", 400},
		{"an operator of no merchant names one", operator, "?merchant_id=one", "one", 200},
		{"a caller of no merchant", auth.Identity{UserID: "u"}, "", "", 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(auth.With(t.Context(), c.caller), http.MethodGet, "/v1/merchant/profile"+c.query, nil)
			got, ok := m.ofOne(w, r)
			require.Equal(t, c.want != "", ok)
			require.Equal(t, c.want, got)
			require.Equal(t, c.status, w.Code)
		})
	}
}
