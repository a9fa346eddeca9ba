package core

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/pkg/contract"
)

// earlier orders the list of sales by start, then by id.
func earlier(a, b Sale) bool {
	if !a.StartsAt.Equal(b.StartsAt) {
		return a.StartsAt.Before(b.StartsAt)
	}
	return numberLess(a.ActivityID, b.ActivityID)
}

// numberLess compares two ids as decimal numbers.
func numberLess(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// cursorOf encodes the position of the last sale of a page. The cursor stays valid when that sale is deleted.
func cursorOf(s Sale) string {
	position := strconv.FormatInt(s.StartsAt.UnixMilli(), 10) + "." + s.ActivityID
	return base64.RawURLEncoding.EncodeToString([]byte(position))
}

func openCursor(c string) (Sale, error) {
	raw, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return Sale{}, err
	}
	ms, id, ok := strings.Cut(string(raw), ".")
	at, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || !contract.ValidID(id) {
		return Sale{}, errors.New("not a cursor")
	}
	return Sale{ActivityID: id, StartsAt: time.UnixMilli(at)}, nil
}
