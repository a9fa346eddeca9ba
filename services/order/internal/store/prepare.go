package store

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/sqldb"
)

// MostTables is the largest number of order tables.
const MostTables = 16

// ValidTables reports whether a number of order tables is possible: a power of two, up to MostTables.
func ValidTables(n int) bool { return n >= 1 && n <= MostTables && n&(n-1) == 0 }

// ChooseLayout stores, in a database without tables, that orders get this number of tables of version 2. It does
// nothing in another database, which keeps its tables. Call it before the migrations. SQLite has one table.
func ChooseLayout(ctx context.Context, db *gorm.DB, tables int) error {
	db = db.WithContext(ctx)
	if !ValidTables(tables) {
		return fmt.Errorf("%d order tables: must be 1, 2, 4, 8 or 16", tables)
	}
	if sqldb.IsSQLite(db) {
		tables = 1
	}
	list := "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ?"
	if sqldb.IsSQLite(db) {
		list = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ?"
	}
	var n int64
	if err := db.Raw(list, []string{"goose_db_version", "orders_00"}).Scan(&n).Error; err != nil {
		return fmt.Errorf("read the names of the tables: %w", err)
	}
	if n > 0 {
		return nil
	}
	if err := db.Exec(createLayout(db, "order_layout")).Error; err != nil {
		return fmt.Errorf("create order_layout: %w", err)
	}
	err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&layout{
		ID: 1, Version: 2, Generation: 1, State: steady, TableNames: tablesOf(1, tables),
	}).Error
	if err != nil {
		return fmt.Errorf("store the layout: %w", err)
	}
	return nil
}

// createLayout returns the statement of the migrations that creates order_layout, under a name.
func createLayout(db *gorm.DB, name string) string {
	statement := "CREATE TABLE IF NOT EXISTS " + name + ` (
  id          INT           NOT NULL,
  version     INT           NOT NULL,
  generation  INT           NOT NULL,
  state       VARCHAR(16)   NOT NULL,
  table_names VARCHAR(1024) NOT NULL,
  next_names  VARCHAR(1024) NOT NULL DEFAULT '',
  PRIMARY KEY (id)
)`
	if sqldb.IsSQLite(db) {
		return statement
	}
	return statement + " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
}

// PrepareTables creates the tables of the layout that are missing and the partitions of the next months, and drops the
// tables of the migrations that a database without orders does not need. Call it after the migrations. It may be
// repeated, also after it was interrupted.
func PrepareTables(ctx context.Context, db *gorm.DB, log *slog.Logger) error {
	l, err := readLayout(db.WithContext(ctx))
	if err != nil || !l.inline() {
		return err
	}
	if l.State != steady {
		log.WarnContext(ctx, "`order migrate tables` was interrupted: repeat it", "state", l.State)
		return nil
	}
	now, err := sqldb.Now(db.WithContext(ctx), nil)
	if err != nil {
		return err
	}
	if err := createTables(ctx, db, l, now); err != nil {
		return err
	}
	if l.Generation == 1 {
		if err := dropUnused(ctx, db); err != nil {
			return err
		}
	}
	if sqldb.IsSQLite(db) {
		return nil
	}
	return addPartitions(ctx, db, l, log)
}

// dropUnused drops the empty tables of version 1.
func dropUnused(ctx context.Context, db *gorm.DB) error {
	db = db.WithContext(ctx)
	for _, name := range append(strings.Split(tablesOfVersion1, ","), "order_items") {
		var rows []int
		err := db.Raw("SELECT 1 FROM " + name + " LIMIT 1").Scan(&rows).Error
		if sqldb.IsMissingTable(err) {
			continue
		}
		if err == nil && len(rows) > 0 {
			err = fmt.Errorf("it has rows")
		}
		if err == nil {
			err = db.Exec("DROP TABLE " + name).Error
		}
		if err != nil {
			return fmt.Errorf("drop %s: %w", name, err)
		}
	}
	return nil
}

const tablesOfVersion1 = "orders_00,orders_01,orders_02,orders_03,orders_04,orders_05,orders_06,orders_07," +
	"orders_08,orders_09,orders_10,orders_11,orders_12,orders_13,orders_14,orders_15"
