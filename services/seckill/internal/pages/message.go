package pages

import (
	"bytes"
	"html/template"
	"net/http"
	"strconv"
)

// Message is a page that states in a few words what went wrong. Its texts are escaped.
type Message struct {
	Title  string
	Text   string
	Detail string // from outside, such as an error of an identity provider; "" for none
	Link   string // a path of this site
	Label  string // of the link
}

const messageStyle = `:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0;padding:40px 16px;` +
	`background:#f7f7f5;color:#16181d}main{max-width:560px;margin:auto}h1{font-size:28px;line-height:1.2}` +
	`a{color:#c4320a}code{overflow-wrap:anywhere}@media (prefers-color-scheme:dark){body{background:#0f1115;color:#eceef2}` +
	`a{color:#ff7a45}}`

var (
	message = template.Must(template.New("message").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{{.Title}}</title>
<style>` + messageStyle + `</style>
</head>
<body>
<main>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{with .Detail}}<p><code>{{.}}</code></p>
{{end}}{{with .Link}}<p><a href="{{.}}">{{$.Label}}</a></p>
{{end}}</main>
</body>
</html>
`))
	messagePolicy = "default-src 'none'; style-src " + hash([]byte(messageStyle)) +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// Write responds with the page. It is never cached.
func (m Message) Write(w http.ResponseWriter, r *http.Request, status int) {
	var page bytes.Buffer
	if err := message.Execute(&page, m); err != nil {
		http.Error(w, m.Title, status) // unreachable: the template fits the type
		return
	}
	h := w.Header()
	secure(h, messagePolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(page.Len()))
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(page.Bytes()) // fails if the caller has disconnected
	}
}

// Error responds with the page of an error status.
func Error(w http.ResponseWriter, r *http.Request, status int) {
	m := Message{Link: "/", Label: "All sales"}
	switch status {
	case http.StatusNotFound:
		m.Title, m.Text = "There is nothing here", "We cannot find this page. 未找到此页面。"
	case http.StatusMethodNotAllowed:
		m.Title, m.Text = "This does not work here", "This page can only be read. 此页面只能查看。"
	default:
		m.Title, m.Text = "Something went wrong", "That was our mistake. Please try again. 系统出错，请重试。"
	}
	m.Write(w, r, status)
}
