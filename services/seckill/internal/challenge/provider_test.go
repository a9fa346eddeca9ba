package challenge

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A provider's 429 fails the answer and nothing else: buyers get the widget on, as the activity demands. Otherwise a
// caller who makes the provider limit the shop would get all buyers a proof of work. Failures open the breaker as
// before, also with a 429 between them.
func TestTheProviderLimitsItsCallers(t *testing.T) {
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("secret") != "shared" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"success":true,"hostname":"shop.example"}`)
	}))
	t.Cleanup(server.Close)
	p := NewProvider(Settings{
		Provider: HCaptcha, SiteKey: "site", Secret: "shared", VerifyURL: server.URL,
	}, "shop.example", nil)
	t.Cleanup(p.Close)
	verify := func(responds int32) error {
		status.Store(responds)
		return p.Verify(t.Context(), Token{Value: "token"})
	}
	for range 10 * verifyFailures {
		require.ErrorIs(t, verify(http.StatusTooManyRequests), errUnverified)
		require.True(t, p.Available())
	}
	require.Equal(t, "closed", p.Breaker())
	require.NoError(t, verify(http.StatusOK))
	for range verifyFailures {
		require.True(t, p.Available())
		require.ErrorIs(t, verify(http.StatusTooManyRequests), errUnverified)
		require.ErrorIs(t, verify(http.StatusInternalServerError), errUnverified)
	}
	require.False(t, p.Available())
}
