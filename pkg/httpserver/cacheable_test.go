package httpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCacheableResponses(t *testing.T) {
	body := []byte("body")
	tag := ETag(body)
	require.Equal(t, tag, ETag([]byte("body")))
	require.NotEqual(t, tag, ETag([]byte("other")))
	for header, status := range map[string]int{
		"": 200, tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "x": 200,
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/", nil)
			if header != "" {
				r.Header.Set("If-None-Match", header)
			}
			WriteCacheable(w, r, "text/plain", tag, body)
			require.Equal(t, status, w.Code, header)
			require.Equal(t, tag, w.Header().Get("ETag"))
			want := ""
			if status == http.StatusOK {
				require.Equal(t, "4", w.Header().Get("Content-Length"))
				if method == http.MethodGet {
					want = "body"
				}
			}
			require.Equal(t, want, w.Body.String(), header)
		}
	}
}
