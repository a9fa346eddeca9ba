package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

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

func TestCells(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"Li":                           "Li",
		"a=b; c-d, +e":                 "a=b; c-d, +e",
		"=1+1":                         "'=1+1",
		"132271680851542028":           "'132271680851542028",
		"123456789012345":              "123456789012345",
		"99.00":                        "99.00",
		"+4915112345678":               "'+4915112345678",
		"＝1":                           "'＝1",
		"\tx":                          "'\tx",
		"Li;=HYPERLINK(\"x\")":         "Li;'=HYPERLINK(\"x\")",
		"Li; \"=1\"":                   "Li; \"'=1\"",
		"Li；＝1;@2":                     "Li；'＝1;'@2",
		"Li\t-1\n＋2":                   "Li\t'-1\n'＋2",
		"No. 1-3; House a-b; 100 @ me": "No. 1-3; House a-b; 100 @ me",
	} {
		require.Equal(t, want, cell(text), text)
	}
}

func TestTheBudgetOfLookups(t *testing.T) {
	failed := errors.New("order service: status 503")
	for _, c := range []struct {
		took  time.Duration
		err   error
		pages int // that are looked up
	}{
		{time.Millisecond, failed, 3},
		{2900 * time.Millisecond, nil, 7}, // slow, and no failure
		{25 * time.Second, nil, 1},
		{100 * time.Millisecond, nil, 200},
	} {
		pages := 0
		for b := newLookupBudget(); b.left(); pages++ {
			b.spend(c.took, c.err)
		}
		require.Equal(t, c.pages, pages, "%v", c)
	}
}
