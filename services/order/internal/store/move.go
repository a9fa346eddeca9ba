package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"flashsale.internal/pkg/ordersn"
	"flashsale.internal/pkg/sqldb"
	"flashsale.internal/services/order/internal/core"
)

// The suffixes of the names of the tables that MoveTables empties. A table has the first one while it is copied, so
// that every process reads the layout again, and the second one afterwards.
const (
	copiedSuffix = "_copied"
	oldSuffix    = "_old"
)

const (
	movePage  = 1000 // rows of one transaction of a copy
	moveDrain = 200  // order_changes that may be left when writers begin to wait
)

// MoveTables copies all orders into a number of tables of version 2, beside services of this release, and switches to
// them in one step:
//
//  1. It renames the tables and stores the state copying, in one statement. That statement waits for the transactions
//     in progress. The next ones find no table, read the layout, and record each order that they write in
//     order_changes, in the same transaction.
//  2. It copies all rows, page by page by order_sn, then again those in order_changes.
//  3. It compares all rows. A row that differs must be in order_changes.
//  4. It renames the tables again and stores the state switching. From then on no process can write. It copies and
//     compares what is left in order_changes, and stores the new layout. Writers wait meanwhile.
//
// It may be killed at any point and called again, with the same number of tables: it then continues. Between the last
// renaming and the new layout services refuse all calls about orders as unavailable. SQLite moves in one transaction.
// The old tables are kept, with the suffix _old; DropOldTables drops them.
func MoveTables(ctx context.Context, db *gorm.DB, tables int, log *slog.Logger, out io.Writer) error {
	return newMove(ctx, db, log, out).start(tables)
}

func newMove(ctx context.Context, db *gorm.DB, log *slog.Logger, out io.Writer) *move {
	return &move{
		ctx: ctx, db: db.WithContext(ctx), log: log, out: out, page: movePage,
		step: func(string) error { return ctx.Err() },
	}
}

func (m *move) start(tables int) error {
	if !sqldb.IsSQLite(m.db) {
		return m.alone(func() error { return m.run(tables) })
	}
	db := m.db
	return sqldb.InTx(m.ctx, db, func(tx *gorm.DB) error {
		m.db = tx
		return m.run(1)
	})
}

type move struct {
	ctx  context.Context //nolint:containedctx // of one call
	db   *gorm.DB
	log  *slog.Logger
	out  io.Writer
	page int // rows of one transaction
	// step is called before each step.
	step func(name string) error
}

// alone runs work while no other process moves tables of this database.
func (m *move) alone(work func() error) error {
	const name = "CONCAT('fs_tables_', LEFT(SHA2(DATABASE(), 256), 40))"
	pool, err := m.db.DB()
	if err != nil {
		return err
	}
	conn, err := pool.Conn(m.ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var got sql.NullInt64
	if err := conn.QueryRowContext(m.ctx, "SELECT GET_LOCK("+name+", 1)").Scan(&got); err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	if got.Int64 != 1 {
		return errors.New("another process is moving the tables of this database")
	}
	defer func() {
		_ = conn.QueryRowContext(context.WithoutCancel(m.ctx), "SELECT RELEASE_LOCK("+name+")").Scan(&got)
	}()
	return work()
}

func (m *move) run(tables int) error {
	if !ValidTables(tables) {
		return fmt.Errorf("%d order tables: must be 1, 2, 4, 8 or 16", tables)
	}
	l, err := readLayout(m.db)
	if err != nil {
		return err
	}
	if l.State == steady {
		if l.inline() && len(l.tables()) == tables {
			fmt.Fprintf(m.out, "Number of order tables: %d, as before.\n", tables)
			return nil
		}
		l.NextNames = tablesOf(l.Generation+1, tables)
	}
	if n := len(l.next().tables()); n != tables {
		return fmt.Errorf("a move to %d tables was begun: repeat it with that number first", n)
	}
	if l.State == steady {
		if l, err = m.begin(l); err != nil {
			return err
		}
	}
	if l.State == copying {
		if err := m.copyAll(l); err != nil {
			return err
		}
		if err := m.compareAll(l); err != nil {
			return err
		}
		if l, err = m.rename(l, switching, func(name string) string {
			return strings.TrimSuffix(name, copiedSuffix) + oldSuffix
		}); err != nil {
			return err
		}
	}
	return m.finish(l)
}

// begin creates the new tables and changes to the state copying.
func (m *move) begin(l *layout) (*layout, error) {
	if err := m.step("create tables"); err != nil {
		return nil, err
	}
	first, err := m.oldest(l)
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(tablesOf(l.Generation+1, MostTables), ",") { // of a move that was killed here
		if err := m.db.Exec("DROP TABLE IF EXISTS " + name).Error; err != nil {
			return nil, err
		}
	}
	if err := m.db.Where("1 = 1").Delete(&changeRow{}).Error; err != nil {
		return nil, err
	}
	if err := createTables(m.ctx, m.db, l.next(), first); err != nil {
		return nil, err
	}
	return m.rename(l, copying, func(name string) string { return name + copiedSuffix })
}

// oldest returns the time of the lowest order_sn.
func (m *move) oldest(l *layout) (time.Time, error) {
	first, err := sqldb.Now(m.db, nil)
	if err != nil {
		return first, err
	}
	for _, name := range l.tables() {
		var sns []int64
		if err := m.db.Table(name).Order("order_sn").Limit(1).Pluck("order_sn", &sns).Error; err != nil {
			return first, err
		}
		if len(sns) == 0 {
			continue
		}
		sn, err := ordersn.Parse(text(sns[0]))
		if err != nil {
			return first, err
		}
		if sn.Time.Before(first) {
			first = sn.Time
		}
	}
	return first, nil
}

// rename renames all tables of the layout and stores it with their names and the state, in one statement.
func (m *move) rename(l *layout, state string, to func(name string) string) (*layout, error) {
	if err := m.step("rename to " + state); err != nil {
		return nil, err
	}
	renamed := *l
	renamed.State = state
	var pairs []string
	names := l.tables()
	if !l.inline() {
		names = append(names, l.itemTable())
	}
	for i, name := range names {
		pairs = append(pairs, name+" TO "+to(name))
		names[i] = to(name)
	}
	renamed.TableNames = strings.Join(names[:len(l.tables())], ",")
	if sqldb.IsSQLite(m.db) {
		for _, pair := range pairs {
			if err := m.db.Exec("ALTER TABLE " + strings.Replace(pair, " TO ", " RENAME TO ", 1)).Error; err != nil {
				return nil, err
			}
		}
		return &renamed, m.db.Save(&renamed).Error
	}
	if err := m.db.Exec("DROP TABLE IF EXISTS order_layout_next, order_layout_last").Error; err != nil {
		return nil, err
	}
	if err := m.db.Exec(createLayout(m.db, "order_layout_next")).Error; err != nil {
		return nil, err
	}
	if err := m.db.Table("order_layout_next").Create(&renamed).Error; err != nil {
		return nil, err
	}
	pairs = append(pairs, "order_layout TO order_layout_last", "order_layout_next TO order_layout")
	if err := sqldb.Alter(m.ctx, m.db, m.log, "RENAME TABLE "+strings.Join(pairs, ", ")); err != nil {
		return nil, fmt.Errorf("rename the tables: %w", err)
	}
	m.log.InfoContext(m.ctx, "order tables renamed", "state", state)
	return &renamed, nil
}

// copyAll copies all rows and then those that were changed meanwhile.
func (m *move) copyAll(l *layout) error {
	rows := 0
	for _, name := range l.tables() {
		for after := int64(0); ; {
			if err := m.step("copy a page"); err != nil {
				return err
			}
			var n int
			err := sqldb.InTx(m.ctx, m.db, func(tx *gorm.DB) error {
				page, err := m.pageOf(tx, name, after)
				if err != nil {
					return err
				}
				if n = len(page); n == 0 {
					return nil
				}
				after = page[n-1].OrderSN
				if err := put(tx, l, page); err != nil {
					return err
				}
				return addChecks(tx, l, page)
			}, sqldb.RetryUnknownCommit())
			if err != nil {
				return fmt.Errorf("copy %s: %w", name, err)
			}
			if rows += n; n > 0 && rows%(100*m.page) == 0 {
				fmt.Fprintf(m.out, "%d orders copied\n", rows)
			}
			if n < m.page {
				break
			}
		}
	}
	fmt.Fprintf(m.out, "%d orders copied\n", rows)
	return m.copyChanges(l, moveDrain)
}

// pageOf reads a page of rows by order_sn.
func (m *move) pageOf(db *gorm.DB, table string, after int64) ([]orderRow, error) {
	var page []orderRow
	err := db.Table(table).Where("order_sn > ?", after).Order("order_sn").Limit(m.page).Find(&page).Error
	return page, err
}

// put writes rows of the old tables into the new ones, with their lines.
func put(tx *gorm.DB, l *layout, rows []orderRow) error {
	rows, err := inlined(tx, l, rows)
	if err != nil {
		return err
	}
	next := l.next()
	names := next.tables()
	byTable := make([][]orderRow, len(names))
	for _, r := range rows {
		shard := next.shardOf(uint8(r.OrderSN)) // the gene is the lowest 8 bits
		byTable[shard] = append(byTable[shard], r)
	}
	for shard, some := range byTable {
		if len(some) == 0 {
			continue
		}
		if err := tx.Table(names[shard]).Clauses(clause.OnConflict{UpdateAll: true}).Create(&some).Error; err != nil {
			return err
		}
	}
	return nil
}

// inlined returns the rows with their lines, which version 1 has in another table.
func inlined(db *gorm.DB, l *layout, rows []orderRow) ([]orderRow, error) {
	if l.inline() {
		return rows, nil
	}
	orders, err := withLines(db, l, rows)
	for i, o := range orders {
		rows[i].LineItems = formatLines(o.Lines)
	}
	return rows, err
}

// addChecks adds the pending orders of version 1 to close_checks. Those that are inserted from then on are there.
func addChecks(tx *gorm.DB, l *layout, rows []orderRow) error {
	if l.inline() {
		return nil
	}
	pending := slices.DeleteFunc(slices.Clone(rows), func(r orderRow) bool { return r.State != string(core.Pending) })
	if len(pending) == 0 {
		return nil
	}
	return tx.Create(checksOf(pending)).Error
}

// copyChanges copies the orders in order_changes again, until at most left of them remain.
func (m *move) copyChanges(l *layout, left int) error {
	for {
		if err := m.step("copy changes"); err != nil {
			return err
		}
		var sns []int64
		if err := m.db.Model(&changeRow{}).Order("order_sn").Limit(m.page).Pluck("order_sn", &sns).Error; err != nil {
			return err
		}
		if len(sns) == 0 {
			return nil
		}
		err := sqldb.InTx(m.ctx, m.db, func(tx *gorm.DB) error {
			// The deletion comes first: it waits for the transactions that have recorded these orders, and those that record
			// them from then on wait for this one. So the rows that are read here have all changes up to the deletion, and
			// each later change is recorded again.
			if err := tx.Where("order_sn IN ?", sns).Delete(&changeRow{}).Error; err != nil {
				return err
			}
			return copyAgain(tx, l, sns)
		}, sqldb.RetryUnknownCommit())
		if err != nil {
			return fmt.Errorf("copy changes: %w", err)
		}
		if len(sns) <= left {
			return nil
		}
	}
}

// copyAgain copies the present rows of these orders.
func copyAgain(tx *gorm.DB, l *layout, sns []int64) error {
	groups, err := l.groups(texts(sns))
	if err != nil {
		return err
	}
	rows, err := readRows(tx, groups, false)
	if err != nil || len(rows) == 0 {
		return err
	}
	return put(tx, l, rows)
}

func texts(sns []int64) []string {
	all := make([]string, len(sns))
	for i, sn := range sns {
		all[i] = text(sn)
	}
	return all
}

// compareAll compares all rows of the old and the new tables, in both directions. A row that differs because it was
// changed is in order_changes or will be, when the transaction that changes it commits; finish compares those.
func (m *move) compareAll(l *layout) error {
	next := l.next()
	compared := 0
	for _, side := range []struct{ from, to *layout }{{l, next}, {next, l}} {
		for _, name := range side.from.tables() {
			for after := int64(0); ; {
				if err := m.step("compare a page"); err != nil {
					return err
				}
				page, err := m.pageOf(m.db, name, after)
				if err != nil {
					return err
				}
				if len(page) == 0 {
					break
				}
				sns := make([]int64, len(page))
				for i, r := range page {
					sns[i] = r.OrderSN
				}
				if err := m.compare(l, sns, true); err != nil {
					return err
				}
				after = sns[len(sns)-1]
				if compared += len(sns); len(page) < m.page {
					break
				}
			}
		}
		if side.from == next {
			break
		}
		fmt.Fprintf(m.out, "%d orders compared\n", compared)
	}
	return m.copyChanges(l, moveDrain)
}

// compare compares orders in the old and the new tables. With changing set, those that are in order_changes may differ.
func (m *move) compare(l *layout, sns []int64, changing bool) error {
	next := l.next()
	var old, moved []orderRow
	for _, side := range []struct {
		of   *layout
		rows *[]orderRow
	}{{next, &moved}, {l, &old}} {
		groups, err := side.of.groups(texts(sns))
		if err != nil {
			return err
		}
		rows, err := readRows(m.db, groups, false)
		if err != nil {
			return err
		}
		if *side.rows, err = inlined(m.db, side.of, rows); err != nil {
			return err
		}
	}
	differ := difference(old, moved)
	if len(differ) == 0 {
		return nil
	}
	if !changing {
		return fmt.Errorf("%d orders differ between the old and the new tables, the first is %d", len(differ), differ[0])
	}
	// The old rows were read last, so what makes them differ was committed together with its record in order_changes,
	// which only this process deletes.
	var recorded []int64
	err := m.db.Model(&changeRow{}).Where("order_sn IN ?", differ).Pluck("order_sn", &recorded).Error
	if err == nil && len(recorded) < len(differ) {
		err = fmt.Errorf("%d orders differ between the old and the new tables and %d of them were changed meanwhile: %v",
			len(differ), len(recorded), differ[:min(len(differ), 10)])
	}
	return err
}

// difference returns the order_sns of the rows that are not equal on both sides.
func difference(a, b []orderRow) (differ []int64) {
	left := make(map[int64]string, len(a))
	for _, r := range a {
		left[r.OrderSN] = r.fingerprint()
	}
	for _, r := range b {
		if left[r.OrderSN] != r.fingerprint() {
			differ = append(differ, r.OrderSN)
		}
		delete(left, r.OrderSN)
	}
	for sn := range left {
		differ = append(differ, sn)
	}
	slices.Sort(differ)
	return slices.Compact(differ)
}

// fingerprint returns all columns as text.
func (r orderRow) fingerprint() string {
	at := func(t *time.Time) string { return timeOrZero(t).Format(time.RFC3339Nano) }
	paidBy := int64(-1)
	if r.PaidBy != nil {
		paidBy = *r.PaidBy
	}
	return fmt.Sprintf("%d %q %d %d %s %t %d %s %s %s %s %s %s %s %d %s %s %d %q %q", r.OrderSN, r.UserID, r.ActivityID,
		r.Bucket, r.State, r.Tombstone, r.Amount, r.Currency, at(&r.CreatedAt), at(&r.ExpiresAt), at(r.PaidAt),
		at(r.ClosedAt), at(r.RefundedAt), r.CloseReason, paidBy, at(r.PayingUntil), at(&r.CloseCheckAt), r.CloseResends,
		r.Traceparent, r.LineItems)
}

// finish copies and compares what was changed last, and stores the new layout. No process can write meanwhile.
func (m *move) finish(l *layout) error {
	for {
		if err := m.step("compare changes"); err != nil {
			return err
		}
		var sns []int64
		if err := m.db.Model(&changeRow{}).Order("order_sn").Limit(m.page).Pluck("order_sn", &sns).Error; err != nil {
			return err
		}
		if len(sns) == 0 {
			break
		}
		err := sqldb.InTx(m.ctx, m.db, func(tx *gorm.DB) error {
			return copyAgain(tx, l, sns)
		}, sqldb.RetryUnknownCommit())
		if err != nil {
			return err
		}
		if err := m.compare(l, sns, false); err != nil {
			return err
		}
		if err := m.db.Where("order_sn IN ?", sns).Delete(&changeRow{}).Error; err != nil {
			return err
		}
	}
	if err := m.step("store the layout"); err != nil {
		return err
	}
	if err := m.db.Save(l.next()).Error; err != nil {
		return fmt.Errorf("store the layout: %w", err)
	}
	if err := m.db.Exec("DROP TABLE IF EXISTS order_layout_last").Error; err != nil {
		return err
	}
	fmt.Fprintf(m.out, "Number of order tables: %d. The old ones have the suffix %s.\n", len(l.next().tables()),
		oldSuffix)
	m.log.InfoContext(m.ctx, "order tables switched", "tables", l.NextNames)
	return nil
}

// DropOldTables drops the tables that a finished MoveTables has left, and returns their names.
func DropOldTables(ctx context.Context, db *gorm.DB, log *slog.Logger) (dropped []string, err error) {
	l, err := readLayout(db.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if l.State != steady {
		return nil, errors.New("a move to other tables was begun: repeat it first")
	}
	all, err := db.WithContext(ctx).Migrator().GetTables()
	if err != nil {
		return nil, err
	}
	slices.Sort(all)
	for _, name := range all {
		if !strings.HasSuffix(name, oldSuffix) || !strings.HasPrefix(name, "orders_") && name != "order_items"+oldSuffix {
			continue
		}
		if err := sqldb.Alter(ctx, db, log, "DROP TABLE "+name); err != nil {
			return dropped, fmt.Errorf("drop %s: %w", name, err)
		}
		dropped = append(dropped, name)
	}
	return dropped, nil
}
