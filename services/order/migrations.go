package order

import (
	"embed"
	"io/fs"
)

// Migrations holds the schema of the order service.
//
//go:embed migrations/mysql/*.sql migrations/sqlite/*.sql
var Migrations embed.FS

//go:embed sandbox/migrations/mysql/*.sql sandbox/migrations/sqlite/*.sql
var sandboxFiles embed.FS

// SandboxMigrations holds the schema of the sandbox provider's own database. Without such a database the same tables
// are in the order database, by Migrations.
var SandboxMigrations = sandboxMigrations()

func sandboxMigrations() fs.FS {
	sub, err := fs.Sub(sandboxFiles, "sandbox")
	if err != nil { // only for a malformed path
		panic(err)
	}
	return sub
}
