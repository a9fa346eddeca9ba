// Package web embeds the built pages: the buyers' document, the console and its assets. `make web` builds them.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS returns the built pages, rooted at dist: index.html (buyers), console.html, challenge.html (the widget
// of a third party), favicon.svg and assets/.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // only for an invalid path
	}
	return sub
}
