package core

import (
	"cmp"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// place is the place of a sale in the list of sales: open ones first, by their end, then scheduled ones, by their start.
type place struct {
	scheduled bool
	at        time.Time // the end of an open sale, the start of a scheduled one
	id        string
}

func placeOf(v ActivityView) place {
	if v.State == StateScheduled {
		return place{true, v.Sale.StartsAt, v.Sale.ActivityID}
	}
	return place{false, v.Sale.EndsAt, v.Sale.ActivityID}
}

func (p place) compare(o place) int {
	switch {
	case p.scheduled && !o.scheduled:
		return 1
	case o.scheduled && !p.scheduled:
		return -1
	}
	return cmp.Or(p.at.Compare(o.at), compareNumbers(p.id, o.id))
}

// compareNumbers compares two ids as decimal numbers.
func compareNumbers(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// cursor encodes the place of the last sale of a page. It stays valid when that sale is deleted, or opens. A sale that
// opens between two pages may be on neither; the next reading of the list has it.
func (p place) cursor() string {
	text := strconv.FormatInt(p.at.UnixMilli(), 10) + "." + p.id
	if p.scheduled {
		text = "s" + text
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func openCursor(c string) (place, error) {
	raw, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return place{}, err
	}
	text, scheduled := strings.CutPrefix(string(raw), "s")
	ms, id, ok := strings.Cut(text, ".")
	at, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || !contract.ValidID(id) {
		return place{}, errors.New("not a cursor")
	}
	return place{scheduled, time.UnixMilli(at), id}, nil
}
