package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcceptsCSV(t *testing.T) {
	for accept, csv := range map[string]bool{
		"":                                    false,
		"*/*":                                 false,
		"application/json":                    false,
		"text/*":                              false,
		"text/csv":                            true,
		"text/csv; charset=utf-8":             true,
		"text/csv, application/json":          true,
		"text/csv, */*;q=0.8":                 true,
		"application/json;q=0.5, text/csv":    true,
		"application/json, text/csv;q=0.5":    false,
		"text/csv;q=0, application/json":      false,
		"text/csv;q=0":                        false,
		"text/csv;q=much":                     false,
		"text/html, ,;, text/csv;q=0.1, */*;": true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		require.Equal(t, csv, acceptsCSV(r), accept)
	}
}
