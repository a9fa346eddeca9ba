package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
	"flashsale.internal/pkg/httpserver"
	"flashsale.internal/services/inventory/internal/core"
	"flashsale.internal/services/inventory/internal/merchants"
)

// searchText is what a list may be searched for.
var searchText = contract.Text{Most: 100}

// searched returns the parameter q, "" without one.
func (m *Merchant) searched(w http.ResponseWriter, r *http.Request) (part string, ok bool) {
	query := r.URL.Query()
	if !query.Has("q") {
		return "", true
	}
	part = query.Get("q")
	if err := contract.CheckText("q", part, searchText); err != nil {
		m.refuse(w, r, err)
		return "", false
	}
	return part, true
}

// activityFilter parses the parameters of the list of activities.
func (m *Merchant) activityFilter(
	w http.ResponseWriter, r *http.Request,
) (f merchants.ActivityFilter, p core.Page, ok bool) {
	query := r.URL.Query()
	if query.Has("state") {
		if f.Phase = query.Get("state"); !slices.Contains(core.Phases, f.Phase) {
			m.refuse(w, r, contract.InvalidField("state", "must be "+strings.Join(core.Phases, ", ")))
			return f, p, false
		}
	}
	if query.Has("sort") {
		sort := query.Get("sort")
		if sort != "created" && sort != "start" {
			m.refuse(w, r, contract.InvalidField("sort", "must be created or start"))
			return f, p, false
		}
		f.ByStart = sort == "start"
	}
	if f.Title, ok = m.searched(w, r); !ok {
		return f, p, false
	}
	if f.ByStart {
		p, f.From, ok = m.startPage(w, r)
	} else {
		p, ok = m.page(w, r)
	}
	return f, p, ok
}

// byStart begins the cursors of a list by start, so that no cursor of another sort is one.
const byStart = "start"

// startPlace returns the place of an activity in a list by start, as cutPage needs it.
func startPlace(a core.Activity) string {
	return fmt.Sprintf("%s %d %s", byStart, a.StartsAt.UnixMilli(), a.ID)
}

// startPage is page for a list by start. It also returns the start of the activity that the cursor names.
func (m *Merchant) startPage(w http.ResponseWriter, r *http.Request) (out core.Page, from time.Time, ok bool) {
	p, err := httpserver.PageOf(r)
	out.Limit = p.Limit + 1
	if err == nil && p.Cursor != "" {
		if out.Cursor, from, ok = parseStartCursor(p.Cursor); !ok {
			err = contract.InvalidField("cursor", "is not valid")
		}
	}
	if err != nil {
		m.refuse(w, r, err)
		return core.Page{}, time.Time{}, false
	}
	return out, from, true
}

func parseStartCursor(cursor string) (id string, from time.Time, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", time.Time{}, false
	}
	parts := strings.Split(string(raw), " ")
	if len(parts) != 3 || parts[0] != byStart || !contract.ValidID(parts[2]) {
		return "", time.Time{}, false
	}
	ms, err := strconv.ParseInt(parts[1], 10, 64)
	from = time.UnixMilli(ms).UTC()
	return parts[2], from, err == nil && from.Year() >= 2000 && from.Year() <= core.LastYear
}
