// Package pages serves the pages for browsers: the built documents and their files from memory, and pages that state
// what went wrong.
package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// How long caches keep documents and files. A file's name changes with its content.
const (
	documentCaching = "public, max-age=10, stale-if-error=86400"
	assetCaching    = "public, max-age=31536000, immutable"
	iconCaching     = "public, max-age=86400"
)

// Pages are the documents and files.
type Pages struct {
	files          map[string]*file // by path below the root
	buyer, console *file
	challenge      *file // with the widget of a third party; nil without one
}

// New reads all files and makes the compressed bodies of the documents; those of the other files are made when they are
// first requested. images are further origins from which browsers may load images. provider are the origins of a third
// party's challenges: the page of challenges alone may load from them, and does not exist without them.
func New(root fs.FS, images, provider []string) (*Pages, error) {
	p := &Pages{files: map[string]*file{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		if err == nil {
			p.files[name] = newFile(name, raw)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	p.buyer, p.console = p.files["index.html"], p.files["console.html"]
	if p.buyer == nil || p.console == nil {
		return nil, errors.New("the pages lack index.html or console.html")
	}
	documents := []*file{p.buyer, p.console}
	if len(provider) > 0 {
		if p.challenge = p.files["challenge.html"]; p.challenge == nil {
			return nil, errors.New("the pages lack challenge.html")
		}
		documents = append(documents, p.challenge)
	}
	for _, document := range documents {
		document.policy = policyOf(document.plain.raw, images)
		document.gzip()
		document.br()
	}
	if p.challenge != nil {
		p.challenge.policy = challengePolicy(provider)
	}
	return p, nil
}

// Mount adds the routes of the pages.
func (p *Pages) Mount(r chi.Router) {
	buyer, console := p.document(p.buyer), p.document(p.console)
	for _, pattern := range []string{"/", "/sales/{activity_id}", "/orders", "/orders/{order_sn}"} {
		r.Get(pattern, buyer)
	}
	if p.challenge != nil {
		r.Get("/sales/{activity_id}/challenge", p.document(p.challenge))
	}
	// A link that was shared with a slash at its end, or without an activity.
	for _, pattern := range []string{"/sales/{activity_id}/", "/orders/", "/orders/{order_sn}/"} {
		r.Get(pattern, func(w http.ResponseWriter, r *http.Request) {
			redirect(w, r, strings.TrimSuffix(r.URL.EscapedPath(), "/"))
		})
	}
	for _, pattern := range []string{"/sales", "/sales/"} {
		r.Get(pattern, func(w http.ResponseWriter, r *http.Request) { redirect(w, r, "/") })
	}
	r.Get("/console", console)
	r.Get("/console/*", console)
	r.Get("/assets/*", p.asset)
	r.Get("/favicon.svg", p.named("favicon.svg", iconCaching))
}

// redirect sends the browser to another path of this site, with the query. The patterns of the routes keep the path from
// beginning with two slashes, which would name another host.
func redirect(w http.ResponseWriter, r *http.Request, path string) {
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusPermanentRedirect)
}

func (p *Pages) document(f *file) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header(), f.policy)
		f.serve(w, r, documentCaching)
	}
}

func (p *Pages) asset(w http.ResponseWriter, r *http.Request) {
	p.named(strings.TrimPrefix(r.URL.Path, "/"), assetCaching)(w, r)
}

func (p *Pages) named(name, caching string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f := p.files[name]
		if f == nil {
			Error(w, r, http.StatusNotFound)
			return
		}
		secure(w.Header(), filePolicy)
		f.serve(w, r, caching)
	}
}

// filePolicy is the policy of files, which a browser may also show as a document, such as an image.
const filePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

// secure sets the security headers of all pages.
func secure(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
