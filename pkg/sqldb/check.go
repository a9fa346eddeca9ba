package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"
)

// Check reports why a program with these migrations cannot work on the database: it does not respond or takes no
// writes, or its newest migration is another one. It changes nothing.
func Check(ctx context.Context, db *gorm.DB, migrations fs.FS) error {
	dir := "migrations/sqlite"
	if !IsSQLite(db) {
		dir = "migrations/mysql"
		var readOnly, engine string
		row := db.WithContext(ctx).Raw("SELECT @@global.read_only, @@global.innodb_read_only").Row()
		if err := row.Scan(&readOnly, &engine); err != nil {
			return err
		}
		if readOnly != "0" && readOnly != "OFF" || engine != "0" {
			return errors.New("the server is read-only")
		}
	}
	newest, err := newestOf(migrations, dir)
	if err != nil {
		return err
	}
	var applied int64
	err = db.WithContext(ctx).Raw("SELECT COALESCE(MAX(version_id), 0) FROM goose_db_version").Scan(&applied).Error
	switch {
	case err != nil && !IsMissingTable(err):
		return err
	case applied < newest:
		return fmt.Errorf("migration %d is pending, and %d the last applied one", newest, applied)
	case applied > newest:
		return fmt.Errorf("migration %d is applied, which this program does not have", applied)
	}
	return nil
}

// newestOf returns the highest number of the files in a folder of migrations.
func newestOf(migrations fs.FS, dir string) (newest int64, err error) {
	files, err := fs.Glob(migrations, dir+"/*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range files {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// Server returns the address of a MySQL server and the name of the database; "SQLite" without a server.
func Server(db *gorm.DB) string {
	if my := extensionOf(db).mysql; my != nil {
		return my.Addr + "/" + my.DBName
	}
	return "SQLite"
}
