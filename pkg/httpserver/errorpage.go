package httpserver

import (
	"net/http"
	"strings"
)

// ErrorPages makes the router respond with a page, and not with a problem document, to browsers that navigate to an
// unknown route or use a wrong method, and after a panic. Paths below /v1/ always get problem documents.
func ErrorPages(page func(w http.ResponseWriter, r *http.Request, status int)) Option {
	return func(o *options) { o.page = page }
}

// wantsPage reports whether the caller is a browser that navigates: it accepts HTML by name.
func wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/v1/") && strings.Contains(r.Header.Get("Accept"), "text/html")
}
