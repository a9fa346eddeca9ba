package inventory

import (
	"embed"
	"io/fs"
)

//go:embed migrations/mysql/*.sql migrations/sqlite/*.sql
var files embed.FS

// Migrations holds the schema of the inventory service: mysql/*.sql and sqlite/*.sql.
var Migrations = sub(files, "migrations")

func sub(f embed.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // only for a malformed name, which the line above shows it is not
	}
	return s
}
