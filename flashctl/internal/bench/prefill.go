package bench

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rows that orders and ledger are filled with.
const (
	fewRows  = 1_000_000
	manyRows = 5_000_000
	// copiesAtOnce is the number of copies of the templates that one statement inserts.
	copiesAtOnce = 10
	// templateMarks is the number of templates that one statement stores.
	templateMarks = 1000
	// millisecondShift is the position of the milliseconds in an order_sn; see pkg/ordersn.
	millisecondShift = 22
)

// prefilled1M measures whole purchases before and after orders and ledger are filled with a million rows each.
func (b *bench) prefilled1M(ctx context.Context) error { return b.prefilled(ctx, fewRows) }

// prefilled5M is the same with five million rows.
func (b *bench) prefilled5M(ctx context.Context) error { return b.prefilled(ctx, manyRows) }

func (b *bench) prefilled(ctx context.Context, rows int) error {
	if b.filled == 0 {
		if err := b.filledWindow(ctx); err != nil {
			return err
		}
	}
	if err := b.fill(ctx, b.scaledCount(rows, warmUpUnits)); err != nil {
		return err
	}
	return b.filledWindow(ctx)
}

// filledWindow measures the same as inlined and names it by the rows that the tables were filled with.
func (b *bench) filledWindow(ctx context.Context) error {
	return b.window(ctx, saleWindow{
		name: fmt.Sprintf("path inline, %d rows", b.filled), inline: true, bare: 2,
		traffic: traffic{conns: 64, within: b.scaled(30 * time.Second)},
	})
}

// fill inserts old orders until each of orders and ledger has got that many. They are copies of the orders of the
// warm-up, of earlier times, other users and other activities, and closed. A copy has all columns of the table, so the
// filling does not depend on the tables: every table with an order_sn gets its rows.
func (b *bench) fill(ctx context.Context, rows int) error {
	began := time.Now()
	warmUp := b.sales[0]
	span, err := spanOf(warmUp.accepted)
	if err != nil {
		return err
	}
	from, to := b.filled/len(warmUp.accepted)+1, rows/len(warmUp.accepted)
	for _, target := range []struct {
		db    *sql.DB
		state string // of a row whose units were restored
	}{{b.orderDB, "closed"}, {b.inventoryDB, "released"}} {
		if err := b.copyOrders(ctx, target.db, warmUp.accepted, span, target.state, from, to); err != nil {
			return fmt.Errorf("fill tables: %w", err)
		}
	}
	b.filled = to * len(warmUp.accepted)
	b.logf("orders and ledger filled with %d rows each, in %s", b.filled, time.Since(began).Round(time.Second))
	return nil
}

// spanOf returns the milliseconds between the first and the last of these order_sns, and one more.
func spanOf(orderSNs []string) (int64, error) {
	var all []int64
	for _, text := range orderSNs {
		sn, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		all = append(all, sn>>millisecondShift)
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("no orders to copy")
	}
	return slices.Max(all) - slices.Min(all) + 1, nil
}

// copyOrders inserts the copies with the numbers from to to of the rows of these orders, in every table of a database
// that has them. Copy n is n*span milliseconds older.
func (b *bench) copyOrders(
	ctx context.Context, db *sql.DB, orderSNs []string, span int64, state string, from, to int,
) error {
	tables, err := tablesWith(ctx, db, "order_sn")
	if err != nil {
		return err
	}
	if err := storeTemplates(ctx, db, orderSNs, to); err != nil {
		return err
	}
	defer func() { _ = dropTemplates(context.WithoutCancel(ctx), db) }()
	for first := from; first <= to; first += copiesAtOnce {
		last := min(first+copiesAtOnce-1, to)
		for _, t := range tables {
			if _, err := db.ExecContext(ctx, t.copyStatement(span, state), to-last, to-first); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
		if done := last - from + 1; done%(10*copiesAtOnce) == 0 {
			b.logf("%d of %d copies of %d orders", done, to-from+1, len(orderSNs))
		}
	}
	return nil
}

const (
	templateTable = "bench_templates" // the order_sns that are copied
	numberTable   = "bench_copies"    // the numbers 0 to the number of copies
)

// storeTemplates creates the tables that a copy statement reads.
func storeTemplates(ctx context.Context, db *sql.DB, orderSNs []string, copies int) error {
	if err := dropTemplates(ctx, db); err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE TABLE " + templateTable + " (order_sn BIGINT NOT NULL PRIMARY KEY)",
		"CREATE TABLE " + numberTable + " (n BIGINT NOT NULL PRIMARY KEY)",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	numbers := make([]string, copies+1)
	for i := range numbers {
		numbers[i] = strconv.Itoa(i)
	}
	for table, values := range map[string][]string{templateTable: orderSNs, numberTable: numbers} {
		for chunk := range slices.Chunk(values, templateMarks) {
			statement := "INSERT INTO " + table + " VALUES (" + strings.Join(chunk, "),(") + ")" //nolint:gosec // numbers only
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
	}
	return nil
}

func dropTemplates(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS "+templateTable+", "+numberTable)
	return err
}

// copyStatement returns the statement that inserts copies of the templates into the table. Its parameters are the first
// and the last number. A copy is older by span milliseconds for each number; the oldest come first, so that rows are
// appended to the primary key. Its state is that of a row whose units were restored.
func (t table) copyStatement(span int64, state string) string {
	var names, values []string
	micros := strconv.FormatInt(span*1000, 10)
	number := "(k.top - n.n)"
	for _, c := range t.columns {
		value := "t.`" + c.name + "`"
		switch {
		case c.generated:
			continue
		case c.name == "order_sn":
			value = fmt.Sprintf("t.order_sn - %s * %d", number, span<<millisecondShift)
		case c.name == "user_id":
			value = "CONCAT(t.user_id, '-', " + number + ")"
		case c.name == "activity_id":
			value = "-1 - " + number + " % 8"
		case c.name == "state":
			value = "'" + state + "'"
		case c.name == "closed_at" && t.has("created_at"):
			value = "t.created_at - INTERVAL " + number + " * " + micros + " MICROSECOND"
		case c.kind == "datetime":
			value += " - INTERVAL " + number + " * " + micros + " MICROSECOND"
		}
		names, values = append(names, "`"+c.name+"`"), append(values, value)
	}
	return "INSERT INTO `" + t.name + "` (" + strings.Join(names, ", ") + ") SELECT STRAIGHT_JOIN " +
		strings.Join(values, ", ") + " FROM (SELECT MAX(n) AS top FROM " + numberTable + ") k JOIN " + numberTable +
		" n JOIN " + templateTable + " o JOIN `" + t.name + "` t ON t.order_sn = o.order_sn WHERE n.n BETWEEN ? AND ?"
}
