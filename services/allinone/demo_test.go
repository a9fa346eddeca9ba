package allinone

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The demo's sales wait for a gate that is not filled yet, and end at what a repetition does not change.
func TestTheDemoEndsAtARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		answers []string // in order, each a status and a body
		calls   int
		wants   string
	}{
		"refused":         {[]string{"503", "400"}, 2, "400 Bad Request"},
		"not understood":  {[]string{"200 {"}, 1, "unexpected EOF"},
		"taken at length": {[]string{"503", "503", "200 {}"}, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				answer := c.answers[min(calls, len(c.answers)-1)]
				calls++
				switch answer[:3] {
				case "200":
					_, _ = io.WriteString(w, answer[3:])
				case "400":
					w.WriteHeader(http.StatusBadRequest)
				default:
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer server.Close()
			d := demoMerchant{url: server.URL, http: &http.Client{Timeout: 5 * time.Second}}
			err := d.call(t.Context(), http.MethodPost, "/x", nil, &struct{}{})
			require.Equal(t, c.calls, calls)
			if c.wants == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.wants)
			}
		})
	}
}
