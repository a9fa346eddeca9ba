package auth

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"flashsale.internal/pkg/settings"
)

// BenchmarkVerify measures the first check of a token and the later ones, which the cache serves.
func BenchmarkVerify(b *testing.B) {
	tokens := func(b *testing.B, n int) (*Verifier, []string) {
		b.Helper()
		v, err := NewVerifier(settings.Auth{Lenient: true, HS256Secrets: []string{secret}}, nil)
		require.NoError(b, err)
		list := make([]string, n)
		for i := range list {
			list[i], err = Mint(secret, Identity{UserID: "user-" + strconv.Itoa(i)}, time.Hour)
			require.NoError(b, err)
		}
		return v, list
	}
	b.Run("first", func(b *testing.B) {
		v, list := tokens(b, b.N)
		b.ReportAllocs()
		b.ResetTimer()
		for _, token := range list {
			_, err := v.Verify(b.Context(), token)
			require.NoError(b, err)
		}
	})
	b.Run("cached", func(b *testing.B) {
		v, list := tokens(b, 1)
		b.ReportAllocs()
		for b.Loop() {
			_, _ = v.Verify(b.Context(), list[0])
		}
	})
}
