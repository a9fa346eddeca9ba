package command

import (
	"log/slog"

	"gorm.io/gorm"

	"flashsale.internal/pkg/settings"
	"flashsale.internal/pkg/sqldb"
)

// Database holds the settings of a command that needs only the database of MYSQL_DSN.
type Database struct {
	settings.App
	settings.MySQL
	settings.ClientCertificate
}

// Validate reports a wrong MYSQL_DSN.
func (d Database) Validate(production bool) error { return CheckDSN(d.MySQL, production) }

// Open opens the database, which the caller closes.
func (d Database) Open(log *slog.Logger) (*gorm.DB, error) {
	return OpenDatabase(d.MySQL, d.ClientCertificate, log)
}

// OpenDatabase opens a database, which the caller closes.
func OpenDatabase(m settings.MySQL, c settings.ClientCertificate, log *slog.Logger) (*gorm.DB, error) {
	return sqldb.Open(m.DSN.AtStart(), sqldb.Options{Log: log, CurrentDSN: m.DSN.Read, ClientCertificate: c.ForHandshake()})
}
