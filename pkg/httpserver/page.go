package httpserver

import (
	"fmt"
	"net/http"
	"strconv"

	"flashsale.internal/pkg/contract"
)

// Bounds of ?limit=, and of ?cursor= in bytes.
const (
	DefaultLimit = 20
	MaxLimit     = 100
	MaxCursor    = 256
)

// Page is the part of a list that a caller asks for.
type Page struct {
	Limit  int
	Cursor string // "" = from the beginning; what it means is the handler's business
}

// PageOf reads ?limit= and ?cursor=.
func PageOf(r *http.Request) (Page, error) {
	p := Page{Limit: DefaultLimit}
	q := r.URL.Query()
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > MaxLimit {
			return Page{}, contract.InvalidField("limit", fmt.Sprintf("must be 1 to %d", MaxLimit))
		}
		p.Limit = n
	}
	if p.Cursor = q.Get("cursor"); len(p.Cursor) > MaxCursor {
		return Page{}, contract.InvalidField("cursor", "is not valid")
	}
	return p, nil
}
