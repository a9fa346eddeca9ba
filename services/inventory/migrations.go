package inventory

import "embed"

// Migrations holds the schema of the inventory service.
//
//go:embed migrations/mysql/*.sql migrations/sqlite/*.sql
var Migrations embed.FS
