// Package web holds the built pages. Programs serve them from memory, so that no file is needed beside them.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// FS returns the built pages: index.html for buyers, console.html for merchants and operators, and assets.
func FS() fs.FS {
	sub, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // unreachable: the folder is embedded
	}
	return sub
}
