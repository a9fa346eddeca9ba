package order

import "embed"

// Migrations holds the schema of the order service.
//
//go:embed migrations/mysql/*.sql migrations/sqlite/*.sql
var Migrations embed.FS
