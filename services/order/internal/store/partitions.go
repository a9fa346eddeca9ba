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

// monthsAhead is the number of months after the current one for which AddPartitions creates partitions. Later orders
// are in lastPartition, which has no upper bound.
const (
	monthsAhead    = 12
	firstPartition = "p_first"
	lastPartition  = "p_last"
)

// AddPartitions adds the partitions of the next months to the table of orders. They split lastPartition, which is empty
// then unless no release was installed for a year. In a new table the first one holds all earlier orders. Call it after
// the migrations. It may be repeated, also after it was interrupted, and several processes may call it at once. SQLite
// has no partitions.
func AddPartitions(ctx context.Context, db *gorm.DB, log *slog.Logger) error {
	if sqldb.IsSQLite(db) {
		return nil
	}
	now, err := sqldb.Now(db.WithContext(ctx), nil)
	if err != nil {
		return err
	}
	until := monthOf(now).AddDate(0, monthsAhead, 0)
	missing, err := missingPartitions(ctx, db, monthOf(now), until)
	if err != nil || len(missing) == 0 {
		return err
	}
	failed := sqldb.Alter(ctx, db, log, "ALTER TABLE orders REORGANIZE PARTITION "+lastPartition+" INTO ("+
		strings.Join(missing, ", ")+")")
	if failed == nil {
		log.InfoContext(ctx, "partitions of orders added", "until", until.Format("2006-01"))
		return nil
	}
	// Another process may have added them meanwhile.
	if missing, err = missingPartitions(ctx, db, monthOf(now), until); err == nil && len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("add partitions: %w", failed)
}

// missingPartitions returns the definitions into which lastPartition must be split, so that each month up to until has
// a partition; none if that is so. In a new table the first of them ends where month begins.
func missingPartitions(ctx context.Context, db *gorm.DB, month, until time.Time) (missing []string, err error) {
	var last string
	err = db.WithContext(ctx).Raw("SELECT COALESCE(MAX(partition_name), '') FROM information_schema.partitions " +
		"WHERE table_schema = DATABASE() AND table_name = 'orders' AND partition_name LIKE 'p2%'").Scan(&last).Error
	if err != nil {
		return nil, fmt.Errorf("read the partitions: %w", err)
	}
	if last == "" {
		missing = append(missing, partition(firstPartition, firstSN(month)))
	} else {
		if month, err = time.Parse("p200601", last); err != nil {
			return nil, fmt.Errorf("the last partition of orders is %q and must be one of a month", last)
		}
		month = month.AddDate(0, 1, 0)
	}
	if month.After(until) {
		return nil, nil
	}
	for m := month; !m.After(until); m = m.AddDate(0, 1, 0) {
		missing = append(missing, partition(m.Format("p200601"), firstSN(m.AddDate(0, 1, 0))))
	}
	return append(missing, partition(lastPartition, "MAXVALUE")), nil
}

// partition returns the definition of a partition. below is the order_sn from which orders are in the next one.
func partition(name, below string) string {
	if below != "MAXVALUE" {
		below = "(" + below + ")"
	}
	return "PARTITION " + name + " VALUES LESS THAN " + below
}

// monthOf returns the beginning of a month in UTC.
func monthOf(t time.Time) time.Time {
	return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
}

// firstSN returns the lowest order_sn that is issued at a time or later.
func firstSN(t time.Time) string { return ordersn.SN{Time: t}.String() }
