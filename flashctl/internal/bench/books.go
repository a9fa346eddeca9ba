package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale.internal/flashctl/internal/latency"
)

const orderTables = 16

// eachOrder reads all orders of some sales.
func (b *bench) eachOrder(ctx context.Context, sales []*sale, columns string, read func(rows *sql.Rows) error) error {
	marks := strings.TrimSuffix(strings.Repeat("?,", len(sales)), ",")
	ids := make([]any, len(sales))
	for i, s := range sales {
		ids[i] = s.id
	}
	for shard := range orderTables {
		if err := b.eachRow(ctx, fmt.Sprintf("SELECT %s FROM orders_%02d WHERE activity_id IN (%s)", columns, shard, marks), ids, read); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) eachRow(ctx context.Context, query string, args []any, read func(rows *sql.Rows) error) error {
	rows, err := b.orderDB.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (b *bench) countOrders(ctx context.Context) (int, error) {
	all := 0
	err := b.eachOrder(ctx, b.sales, "COUNT(*)", func(rows *sql.Rows) error {
		n := 0
		err := rows.Scan(&n)
		all += n
		return err
	})
	return all, err
}

func (b *bench) deadlines(ctx context.Context, sales []*sale) (first, last time.Time, err error) {
	err = b.eachOrder(ctx, sales, "MIN(expires_at), MAX(expires_at)", func(rows *sql.Rows) error {
		var a, z sql.NullTime
		if err := rows.Scan(&a, &z); err != nil || !a.Valid {
			return err
		}
		if first.IsZero() || a.Time.Before(first) {
			first = a.Time
		}
		if z.Time.After(last) {
			last = z.Time
		}
		return nil
	})
	if err == nil && first.IsZero() {
		err = errors.New("there are no orders to be closed")
	}
	return first, last, err
}

func (b *bench) lateness(ctx context.Context, sales []*sale) (latency.Summary, int, error) {
	var all []time.Duration
	early := 0
	err := b.eachOrder(ctx, sales, "expires_at, closed_at", func(rows *sql.Rows) error {
		var due time.Time
		var closed sql.NullTime
		if err := rows.Scan(&due, &closed); err != nil {
			return err
		}
		if !closed.Valid {
			return errors.New("an order is not closed, although its pieces are back on sale")
		}
		late := closed.Time.Sub(due)
		if late < 0 {
			early++
		}
		all = append(all, late)
		return nil
	})
	return latency.Of(all), early, err
}

// Books is what the end of a run says about every purchase of it.
type Books struct {
	Accepted    int      `json:"accepted"`
	Ledger      int      `json:"ledger_rows"`
	Orders      int      `json:"orders"`
	DeadLetters int      `json:"dead_letters"`
	Wrong       []string `json:"wrong"` // what must not be; empty
}

// balance compares what buyers were told with ledger, orders, stock and gate, purchase by purchase.
func (b *bench) balance(ctx context.Context) (Books, error) {
	var k Books
	wrong := func(format string, args ...any) { k.Wrong = append(k.Wrong, fmt.Sprintf(format, args...)) }
	orders := map[string]map[string]string{} // sale -> order_sn -> state
	err := b.eachOrder(ctx, b.sales, "activity_id, order_sn, state", func(rows *sql.Rows) error {
		var activity, sn, state string
		if err := rows.Scan(&activity, &sn, &state); err != nil {
			return err
		}
		if orders[activity] == nil {
			orders[activity] = map[string]string{}
		}
		orders[activity][sn] = state
		k.Orders++
		return nil
	})
	if err != nil {
		return k, err
	}
	for _, s := range b.sales {
		ledger, err := b.ledger(ctx, s)
		if err != nil {
			return k, err
		}
		k.Accepted += len(s.accepted)
		k.Ledger += len(ledger)
		if int64(len(s.accepted)) > s.stock {
			wrong("activity %s: %d accepted of %d pieces", s.id, len(s.accepted), s.stock)
		}
		lost, without := 0, 0
		for _, sn := range s.accepted {
			if _, ok := ledger[sn]; !ok {
				lost++
			}
			if _, ok := orders[s.id][sn]; !ok {
				without++
			}
		}
		if lost > 0 || without > 0 {
			wrong("activity %s: of %d accepted, %d are not in the ledger and %d have no order", s.id, len(s.accepted), lost, without)
		}
		if len(ledger) != len(s.accepted) || len(orders[s.id]) != len(s.accepted) {
			wrong("activity %s: %d accepted, %d in the ledger, %d orders", s.id, len(s.accepted), len(ledger), len(orders[s.id]))
		}
		var reserved int64
		for sn, state := range ledger {
			if state == "reserved" {
				reserved++
			}
			if (state == "released") != (orders[s.id][sn] == "closed") {
				wrong("order %s: the ledger says %s, the order %s", sn, state, orders[s.id][sn])
			}
		}
		stock, err := b.merchant.Stock(ctx, s.id)
		if err != nil {
			return k, err
		}
		for _, v := range stock.SKUs {
			if v.Difference != 0 || v.Journal != 0 || v.InFlight != 0 || v.MySQL.Reserved != reserved ||
				v.MySQL.Available+reserved != s.stock || v.Gate.Left+reserved != s.stock || v.Gate.Held != reserved {
				wrong("activity %s, %d reserved in the ledger: %s", s.id, reserved, v)
			}
		}
	}
	letters, err := b.merchant.DeadLetters(ctx)
	if err != nil {
		return k, err
	}
	if k.DeadLetters = len(letters); k.DeadLetters > 0 {
		wrong("%d dead letters", k.DeadLetters)
	}
	return k, nil
}

func (b *bench) ledger(ctx context.Context, s *sale) (map[string]string, error) {
	rows, err := b.inventoryDB.QueryContext(ctx, "SELECT order_sn, state FROM reservations WHERE activity_id = ?", s.id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	states := map[string]string{}
	for rows.Next() {
		var sn, state string
		if err := rows.Scan(&sn, &state); err != nil {
			return nil, err
		}
		states[sn] = state
	}
	return states, rows.Err()
}
