package httpserver

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// ETag returns the strong entity tag of a body, with its quotes.
func ETag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:15]) + `"`
}

// WriteCacheable responds 200 with the body and its entity tag, or 304 if the caller has it already. The handler sets
// Cache-Control before.
func WriteCacheable(w http.ResponseWriter, r *http.Request, contentType, tag string, body []byte) {
	h := w.Header()
	h.Set("ETag", tag)
	if matchesETag(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // fails if the caller has disconnected
	}
}

// matchesETag reports whether an If-None-Match header names the tag. It compares weakly (RFC 9110, section 13.1.2), as
// a proxy that compresses a response makes its tag weak.
func matchesETag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
