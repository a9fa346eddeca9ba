package httpserver

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"flashsale.internal/pkg/contract"
)

// Bounds of ?limit=, and of ?cursor= in bytes.
const (
	DefaultLimit = 20
	MaxLimit     = 100
	MaxCursor    = 256
)

// Page is the part of a list that a caller requests.
type Page struct {
	Limit  int
	Cursor string // "" = from the beginning; the handler defines its content
}

// PageOf reads ?limit= and ?cursor=.
func PageOf(r *http.Request) (Page, error) { return PageUpTo(r, MaxLimit) }

// PageUpTo is PageOf for a list with another bound of the limit, at most 65,535.
func PageUpTo(r *http.Request, most int) (Page, error) {
	p := Page{Limit: DefaultLimit}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // r.URL.Query would ignore the malformed parts
		return Page{}, contract.InvalidField("query", "is malformed")
	}
	if q.Has("limit") {
		n, err := strconv.ParseUint(q.Get("limit"), 10, 16) // unlike Atoi it accepts no sign
		if err != nil || n < 1 || int(n) > most {
			return Page{}, contract.InvalidField("limit", fmt.Sprintf("must be 1 to %d", most))
		}
		p.Limit = int(n)
	}
	if p.Cursor = q.Get("cursor"); len(p.Cursor) > MaxCursor || q.Has("cursor") && p.Cursor == "" {
		return Page{}, contract.InvalidField("cursor", "is not valid")
	}
	return p, nil
}
