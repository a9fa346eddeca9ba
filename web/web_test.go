package web

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

const (
	buyerBound   = 30 << 10  // bytes of the buyers' document after gzip -9
	chunkBound   = 8 << 10   // bytes of each chunk of the buyers' document after gzip -9
	consoleBound = 120 << 10 // bytes of the console's first view after gzip -9, the board's chart included
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func zipped(t *testing.T, text string) int {
	t.Helper()
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Len()
}

func TestSizes(t *testing.T) {
	if n := zipped(t, read(t, "index.html")); n > buyerBound {
		t.Errorf("index.html has %d bytes after gzip, more than %d", n, buyerBound)
	}
	n := zipped(t, read(t, "console.html"))
	assets, err := fs.Glob(FS(), "assets/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range assets {
		n += zipped(t, read(t, name))
	}
	if n > consoleBound {
		t.Errorf("the console has %d bytes after gzip, more than %d", n, consoleBound)
	}
	t.Logf("buyer %d, console with all chunks %d bytes after gzip", zipped(t, read(t, "index.html")), n)
}

var (
	tag     = regexp.MustCompile(`<(script|style|link|img)\b[^>]*>`)
	address = regexp.MustCompile(`\s(?:src|href)="([^"]*)"`)
	handler = regexp.MustCompile(`<[a-z]+\b[^>]*\son[a-z]+\s*=`)
	inline  = regexp.MustCompile(`(?s)<(script|style)\b[^>]*>.*?</(?:script|style)>`)
)

var chunkName = regexp.MustCompile(`/assets/(buyer-[\w-]+\.js)`)

// The chunks of the buyers' document hold what few visits need. Each is one file that imports nothing else.
func TestBuyersChunks(t *testing.T) {
	text := read(t, "index.html")
	named := map[string]bool{}
	for _, match := range chunkName.FindAllStringSubmatch(text, -1) {
		named["assets/"+match[1]] = true
	}
	files, err := fs.Glob(FS(), "assets/buyer-*.js")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 || len(files) != len(named) {
		t.Errorf("%d chunks, and the document loads %d", len(files), len(named))
	}
	for _, name := range files {
		if !named[name] {
			t.Errorf("the document does not load %s", name)
		}
		code := read(t, name)
		if n := zipped(t, code); n > chunkBound {
			t.Errorf("%s has %d bytes after gzip, more than %d", name, n, chunkBound)
		}
		if strings.Contains(code, "import(") || regexp.MustCompile(`\bimport\s*[{*"`+"`"+`]`).MatchString(code) {
			t.Errorf("%s imports another file", name)
		}
	}
}

// The buyers' document loads nothing but its icon when it opens, so that one cached response is the whole page.
func TestBuyersDocumentIsWhole(t *testing.T) {
	text := read(t, "index.html")
	for _, element := range tag.FindAllString(text, -1) {
		if strings.HasPrefix(element, "<link") {
			if !strings.Contains(element, `rel="icon"`) || !strings.Contains(element, `href="/favicon.svg"`) {
				t.Errorf("unexpected link: %s", element)
			}
		} else if address.MatchString(element) {
			t.Errorf("the document loads %s", element)
		}
	}
	for _, name := range []string{"script", "style"} {
		if n := strings.Count(text, "<"+name); n != 1 {
			t.Errorf("%d elements %s, want 1: the Content-Security-Policy has a hash of each", n, name)
		}
	}
	if !strings.Contains(text, "<noscript>") {
		t.Error("no text for browsers without JavaScript")
	}
}

func TestConsolesDocumentHasHashedAssets(t *testing.T) {
	text := read(t, "console.html")
	hashed := regexp.MustCompile(`^/assets/[\w.]+-[\w-]{8}\.(js|css)$`)
	found := 0
	for _, match := range address.FindAllStringSubmatch(text, -1) {
		if match[1] == "/favicon.svg" {
			continue
		}
		if !hashed.MatchString(match[1]) {
			t.Errorf("the document loads %s", match[1])
		}
		if _, err := fs.Stat(FS(), strings.TrimPrefix(match[1], "/")); err != nil {
			t.Error(err)
		}
		found++
	}
	if found < 2 {
		t.Errorf("%d assets, want a script and a style at least", found)
	}
}

// Handlers in attributes need 'unsafe-inline' in the Content-Security-Policy.
func TestNoInlineHandlers(t *testing.T) {
	for _, name := range []string{"index.html", "console.html", "challenge.html"} {
		markup := inline.ReplaceAllString(read(t, name), "")
		if found := handler.FindString(markup); found != "" {
			t.Errorf("%s: %s", name, found)
		}
		if strings.Contains(markup, "style=") {
			t.Errorf("%s has a style attribute", name)
		}
	}
}
