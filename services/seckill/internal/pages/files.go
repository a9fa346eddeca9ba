package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"

	"flashsale.internal/pkg/httpserver"
)

// file is one file of the pages with its compressed bodies.
type file struct {
	contentType string
	policy      string // Content-Security-Policy of a document, "" for other files
	plain       body
	gzip, br    func() body // made once; a body without bytes means that it would save nothing
}

type body struct {
	raw []byte
	tag string
}

// types lists the media types of the pages by extension. The table of the operating system could lack some.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp",
	".ico": "image/x-icon", ".woff2": "font/woff2",
}

func newFile(name string, raw []byte) *file {
	contentType := types[path.Ext(name)]
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	tag := strings.Trim(httpserver.ETag(raw), `"`)
	f := &file{contentType: contentType, plain: body{raw, `"` + tag + `"`}}
	none := func() body { return body{} }
	f.gzip, f.br = none, none
	if strings.HasPrefix(contentType, "text/") || strings.HasSuffix(contentType, "json") || contentType == types[".svg"] {
		f.gzip = sync.OnceValue(func() body { return compressed(raw, tag+"-gz", gzipped) })
		f.br = sync.OnceValue(func() body { return compressed(raw, tag+"-br", brotlied) })
	}
	return f
}

// compressed returns the body with its own tag: a strong tag names one representation.
func compressed(raw []byte, tag string, compress func(io.Writer) io.WriteCloser) body {
	var out bytes.Buffer
	w := compress(&out)
	_, err := w.Write(raw)
	if cerr := w.Close(); err != nil || cerr != nil || out.Len() >= len(raw) {
		return body{}
	}
	return body{out.Bytes(), `"` + tag + `"`}
}

func gzipped(w io.Writer) io.WriteCloser {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		panic(err) // unreachable: the level is valid
	}
	return z
}

// brotlied compresses at level 9: level 11 takes ten times as long for some percent less.
func brotlied(w io.Writer) io.WriteCloser { return brotli.NewWriterLevel(w, 9) }

// serve responds with the body that the caller accepts.
func (f *file) serve(w http.ResponseWriter, r *http.Request, cacheControl string) {
	h := w.Header()
	h.Set("Cache-Control", cacheControl)
	h.Set("Vary", "Accept-Encoding")
	accepts := r.Header.Get("Accept-Encoding")
	b := f.plain
	for _, c := range []struct {
		name string
		body func() body
	}{{"br", f.br}, {"gzip", f.gzip}} {
		if !acceptsEncoding(accepts, c.name) {
			continue
		}
		if z := c.body(); z.raw != nil {
			h.Set("Content-Encoding", c.name)
			b = z
			break
		}
	}
	httpserver.WriteCacheable(w, r, f.contentType, b.tag, b.raw)
}

// acceptsEncoding reports whether an Accept-Encoding header names the encoding, and not with q=0.
func acceptsEncoding(header, name string) bool {
	for one := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), name) {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !found || err == nil && weight > 0
	}
	return false
}

// inline matches a script or style element of the documents, which are built and hold no > in an attribute.
var inline = regexp.MustCompile(`(?is)<(script|style)\b([^>]*)>(.*?)</(?:script|style)\s*>`)

// hasSource matches the attributes of a script that is loaded.
var hasSource = regexp.MustCompile(`(?i)(^|\s)src\s*=`)

// chunk marks an inline script that loads a file of this site on demand.
var chunk = []byte("/assets/")

// policyOf returns the Content-Security-Policy of a document. Its inline scripts and styles are allowed by their hashes,
// and nothing else that is inline. A document that loads files of this site may load scripts and styles from it. One whose
// inline script loads chunks may load scripts from it, and no styles.
func policyOf(document []byte, images []string) string {
	var scripts, styles []string
	for _, m := range inline.FindAllSubmatch(document, -1) {
		element, attributes, content := strings.ToLower(string(m[1])), m[2], m[3]
		switch {
		case element == "style":
			styles = append(styles, hash(content))
		case hasSource.Match(attributes):
			scripts, styles = append(scripts, "'self'"), append(styles, "'self'")
		default:
			scripts = append(scripts, hash(content))
			if bytes.Contains(content, chunk) {
				scripts = append(scripts, "'self'")
			}
		}
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src " + sources(scripts),
		"style-src " + sources(styles),
		"img-src " + sources(append([]string{"'self'", "data:"}, images...)),
		"font-src 'self'",
		"connect-src 'self'",
		"manifest-src 'self'",
		"base-uri 'none'",
		"form-action 'self'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
	}, "; ")
}

// challengePolicy returns the Content-Security-Policy of the page with the widget of a third party, whose origins these
// are. It has no inline elements. The scripts of the third party set addresses of scripts, so types are not required.
func challengePolicy(provider []string) string {
	from := "'self' " + strings.Join(provider, " ")
	return strings.Join([]string{
		"default-src 'none'",
		"script-src " + from,
		"style-src " + from,
		"connect-src " + from,
		"frame-src " + strings.Join(provider, " "),
		"worker-src 'self'",
		"img-src 'self' data:",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
}

// sources returns the values of a directive, each once, 'none' for no value.
func sources(list []string) string {
	seen := map[string]bool{}
	var once []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			once = append(once, s)
		}
	}
	if len(once) == 0 {
		return "'none'"
	}
	return strings.Join(once, " ")
}
