package store

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gorm.io/gorm"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
)

// monthsAhead is the number of months after the current one for which PrepareTables creates partitions. Later orders
// are in lastPartition, which has no upper bound.
const (
	monthsAhead    = 12
	firstPartition = "p_first"
	lastPartition  = "p_last"
)

// monthOf returns the beginning of a month in UTC.
func monthOf(t time.Time) time.Time {
	return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
}

// firstSN returns the lowest order_sn that is issued at a time or later.
func firstSN(t time.Time) string { return ordersn.SN{Time: t}.String() }

// monthPartitions returns the definitions of one partition for each month from the first to the last.
func monthPartitions(first, last time.Time) []string {
	var all []string
	for m := first; !m.After(last); m = m.AddDate(0, 1, 0) {
		all = append(all, fmt.Sprintf("PARTITION p%s VALUES LESS THAN (%s)", m.Format("200601"),
			firstSN(m.AddDate(0, 1, 0))))
	}
	return append(all, "PARTITION "+lastPartition+" VALUES LESS THAN MAXVALUE")
}

// createTable returns the statement that creates a table of version 2, with partitions from the month of first.
func createTable(db *gorm.DB, name string, first, now time.Time) string {
	columns := `
  order_sn       BIGINT        NOT NULL,
  user_id        VARCHAR(64)   NOT NULL,
  activity_id    BIGINT        NOT NULL,
  bucket         INT           NOT NULL,
  state          VARCHAR(16)   NOT NULL,
  tombstone      TINYINT(1)    NOT NULL DEFAULT 0,
  line_items     VARCHAR(1024) NOT NULL DEFAULT '',
  amount         BIGINT        NOT NULL,
  currency       VARCHAR(3)    NOT NULL,
  created_at     DATETIME(3)   NOT NULL,
  expires_at     DATETIME(3)   NOT NULL,
  paid_at        DATETIME(3)   NULL,
  closed_at      DATETIME(3)   NULL,
  refunded_at    DATETIME(3)   NULL,
  close_reason   VARCHAR(16)   NOT NULL DEFAULT '',
  paid_by        BIGINT        NULL,
  paying_until   DATETIME(3)   NULL,
  close_check_at DATETIME(3)   NOT NULL,
  close_resends  INT           NOT NULL DEFAULT 0,
  traceparent    VARCHAR(64)   NOT NULL DEFAULT '',
  PRIMARY KEY (order_sn),`
	const checks = `
  CHECK (state IN ('pending', 'paid', 'closed', 'refunded')),
  CHECK (amount >= 0)`
	if sqldb.IsSQLite(db) {
		// The types that the driver and the migrations of SQLite use.
		columns = strings.NewReplacer("BIGINT", "INTEGER", "TINYINT(1)", "BOOLEAN", "INT ", "INTEGER ",
			"DATETIME(3)", "DATETIME").Replace(columns)
		return "CREATE TABLE IF NOT EXISTS " + name + " (" + columns + checks + "\n)"
	}
	first = monthOf(first)
	partitions := append([]string{"PARTITION " + firstPartition + " VALUES LESS THAN (" + firstSN(first) + ")"},
		monthPartitions(first, monthOf(now).AddDate(0, monthsAhead, 0))...)
	return "CREATE TABLE IF NOT EXISTS " + name + " (" + columns + `
  KEY by_user (user_id, created_at, order_sn),` + checks + `
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
PARTITION BY RANGE (order_sn) (
  ` + strings.Join(partitions, ",\n  ") + "\n)"
}

// createTables creates the missing tables of a layout of version 2. first is the time of the oldest order.
func createTables(ctx context.Context, db *gorm.DB, l *layout, first time.Time) error {
	now, err := sqldb.Now(db.WithContext(ctx), nil)
	if err != nil {
		return err
	}
	// The epoch of order_sns is the start of 2025.
	if epoch := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC); first.Before(epoch) {
		first = epoch
	}
	for _, name := range l.tables() {
		if err := db.WithContext(ctx).Exec(createTable(db, name, first, now)).Error; err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		if sqldb.IsSQLite(db) {
			err := db.WithContext(ctx).Exec("CREATE INDEX IF NOT EXISTS " + name + "_by_user ON " + name +
				" (user_id, created_at, order_sn)").Error
			if err != nil {
				return fmt.Errorf("create an index of %s: %w", name, err)
			}
		}
	}
	return nil
}

// addPartitions adds the partitions of the next months to the tables of a layout of version 2. They split
// lastPartition, which is empty then unless no release was installed for a year.
func addPartitions(ctx context.Context, db *gorm.DB, l *layout, log *slog.Logger) error {
	now, err := sqldb.Now(db.WithContext(ctx), nil)
	if err != nil {
		return err
	}
	wanted := monthOf(now).AddDate(0, monthsAhead, 0)
	for _, name := range l.tables() {
		var last string
		err := db.WithContext(ctx).Raw("SELECT COALESCE(MAX(partition_name), '') FROM information_schema.partitions "+
			"WHERE table_schema = DATABASE() AND table_name = ? AND partition_name LIKE 'p2%'", name).Scan(&last).Error
		if err != nil {
			return fmt.Errorf("read the partitions of %s: %w", name, err)
		}
		month, err := time.Parse("p200601", last)
		if err != nil {
			return fmt.Errorf("the last partition of %s is %q and must be one of a month", name, last)
		}
		if !month.Before(wanted) {
			continue
		}
		err = sqldb.Alter(ctx, db, log, "ALTER TABLE "+name+" REORGANIZE PARTITION "+lastPartition+" INTO ("+
			strings.Join(monthPartitions(month.AddDate(0, 1, 0), wanted), ", ")+")")
		if err != nil {
			return fmt.Errorf("add partitions to %s: %w", name, err)
		}
		log.InfoContext(ctx, "partitions added", "table", name, "until", wanted.Format("2006-01"))
	}
	return nil
}
