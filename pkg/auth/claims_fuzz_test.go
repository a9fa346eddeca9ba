package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/settings"
)

// FuzzClaims verifies tokens with any signed header and payload: they are refused, or name a caller with valid ids.
func FuzzClaims(f *testing.F) {
	v, err := NewVerifier(settings.Auth{
		HS256Secrets: []string{secret}, RolesClaim: "realm.roles", MerchantClaim: "https://x.example/m",
	}, nil)
	require.NoError(f, err)
	now := time.Now().Unix()
	for _, seed := range []map[string]any{
		{"sub": "42", "iat": now, "exp": now + 3600},
		{"sub": "ann@example.com", "iat": now, "exp": now + 3600, "aud": []string{"a"}, "nonce": nil},
		{"sub": "u_1", "iat": now, "exp": now + 3600, "realm": map[string]any{"roles": []any{"merchant", 1}}},
		{"sub": "1", "iat": now, "exp": now + 3600, "realm": map[string]any{"roles": []string{"merchant", "x"}}, "https://x.example/m": "m"},
		{"sub": "1", "iat": -1e300, "exp": 1e300, "nbf": "x"},
	} {
		payload, err := json.Marshal(seed)
		require.NoError(f, err)
		f.Add([]byte(`{"alg":"HS256","typ":"JWT"}`), payload)
	}
	f.Add([]byte(`{"alg":"HS256","typ":null,"crit":[]}`), []byte(`null`))
	f.Add([]byte(`{"alg":"none"}`), []byte(`{"realm":[{"roles":[]}],"sub":"\ud800"}`))
	f.Fuzz(func(t *testing.T, header, payload []byte) {
		text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		token := text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		id, err := v.Verify(t.Context(), token)
		again, err2 := v.Verify(t.Context(), token)
		require.Equal(t, err == nil, err2 == nil)
		require.Equal(t, id, again, "from the cache")
		if err != nil {
			require.Equal(t, contract.CodeUnauthenticated, contract.CodeOf(err))
			require.Empty(t, id)
			return
		}
		require.True(t, contract.ValidUserID(id.UserID))
		require.True(t, id.MerchantID == "" || contract.ValidMerchantID(id.MerchantID))
		require.True(t, id.MerchantID == "" || id.Has(Merchant))
		require.LessOrEqual(t, len(id.Roles), len(knownRoles))
	})
}
