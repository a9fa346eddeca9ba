package client

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunningPrefersTheEdge(t *testing.T) {
	serve := func(status int) Origins {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		return Single(s.URL)
	}
	up, bare, starting := serve(http.StatusOK), serve(http.StatusServiceUnavailable), serve(http.StatusServiceUnavailable)
	down := Single("http://127.0.0.1:1")
	for name, c := range map[string]struct {
		edge, first, second, want Origins
	}{
		"make up":                        {up, starting, down, up},
		"services without the edge":      {down, starting, up, starting},
		"an edge with nothing behind it": {bare, down, up, up},
	} {
		got, err := running(t.Context(), c.edge, c.first, c.second)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	_, err := running(t.Context(), bare, down)
	require.ErrorContains(t, err, "no service responds")
}
