package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"flashsale.internal/flashctl/client/load"
)

// eachOrder reads columns of all orders of these sales.
func (b *bench) eachOrder(ctx context.Context, sales []*sale, columns string, read func(rows *sql.Rows) error) error {
	marks := strings.TrimSuffix(strings.Repeat("?,", len(sales)), ",")
	ids := make([]any, len(sales))
	for i, s := range sales {
		ids[i] = s.ActivityID
	}
	query := fmt.Sprintf("SELECT %s FROM orders WHERE activity_id IN (%s)", columns, marks)
	rows, err := b.orderDB.QueryContext(ctx, query, ids...)
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

// deadlines returns the first and the last pay deadline of the orders of these sales.
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
		err = errors.New("no orders to be closed")
	}
	return first, last, err
}

// lateness summarizes the time from deadline to closing of each order, and counts orders closed early.
func (b *bench) lateness(ctx context.Context, sales []*sale) (load.Summary, int, error) {
	var all []time.Duration
	early := 0
	err := b.eachOrder(ctx, sales, "expires_at, closed_at", func(rows *sql.Rows) error {
		var due time.Time
		var closed sql.NullTime
		if err := rows.Scan(&due, &closed); err != nil {
			return err
		}
		if !closed.Valid {
			return errors.New("an order is not closed although its units are restored")
		}
		late := closed.Time.Sub(due)
		if late < 0 {
			early++
		}
		all = append(all, late)
		return nil
	})
	return load.Summarize(all), early, err
}

// Books is the comparison of all purchases of a run with ledger, orders and stock.
type Books struct {
	Accepted    int      `json:"accepted"`
	Ledger      int      `json:"ledger_rows"`
	Orders      int      `json:"orders"`
	DeadLetters int      `json:"dead_letters"`
	Wrong       []string `json:"wrong"` // contradictions; empty if all agree
}

func (k *Books) wrong(format string, args ...any) {
	k.Wrong = append(k.Wrong, fmt.Sprintf(format, args...))
}

// checkBooks compares the accepted purchases with ledger, orders, stock and gate, purchase by purchase.
func (b *bench) checkBooks(ctx context.Context) (Books, error) {
	var k Books
	orders, n, err := b.orderStates(ctx)
	if err != nil {
		return k, err
	}
	k.Orders = n
	for _, s := range b.sales {
		if err := b.checkSale(ctx, &k, s, orders[s.ActivityID]); err != nil {
			return k, err
		}
	}
	deadLetters, err := b.merchant.DeadLetters(ctx, "")
	if err != nil {
		return k, err
	}
	if k.DeadLetters = len(deadLetters); k.DeadLetters > 0 {
		k.wrong("%d dead letters", k.DeadLetters)
	}
	return k, nil
}

// orderStates returns the state of every order of the run by activity and order_sn, and the number of order rows.
func (b *bench) orderStates(ctx context.Context) (orders map[string]map[string]string, n int, err error) {
	orders = map[string]map[string]string{}
	err = b.eachOrder(ctx, b.sales, "activity_id, order_sn, state", func(rows *sql.Rows) error {
		var activity, sn, state string
		if err := rows.Scan(&activity, &sn, &state); err != nil {
			return err
		}
		if orders[activity] == nil {
			orders[activity] = map[string]string{}
		}
		orders[activity][sn] = state
		n++
		return nil
	})
	return orders, n, err
}

// checkSale adds one sale to the books. orders holds the states of its orders by order_sn.
func (b *bench) checkSale(ctx context.Context, k *Books, s *sale, orders map[string]string) error {
	ledger, err := b.ledger(ctx, s)
	if err != nil {
		return err
	}
	k.Accepted += len(s.accepted)
	k.Ledger += len(ledger)
	if int64(len(s.accepted)) > s.stock {
		k.wrong("activity %s: %d accepted of %d units", s.ActivityID, len(s.accepted), s.stock)
	}
	notInLedger, withoutOrder := 0, 0
	for _, sn := range s.accepted {
		if _, ok := ledger[sn]; !ok {
			notInLedger++
		}
		if _, ok := orders[sn]; !ok {
			withoutOrder++
		}
	}
	if notInLedger > 0 || withoutOrder > 0 {
		k.wrong("activity %s: of %d accepted, %d are not in the ledger and %d have no order",
			s.ActivityID, len(s.accepted), notInLedger, withoutOrder)
	}
	if len(ledger) != len(s.accepted) || len(orders) != len(s.accepted) {
		k.wrong("activity %s: %d accepted, %d in the ledger, %d orders",
			s.ActivityID, len(s.accepted), len(ledger), len(orders))
	}
	var reserved, sold int64
	for sn, state := range ledger {
		switch state {
		case "reserved":
			reserved++
		case "sold":
			sold++
		}
		if (state == "released") != (orders[sn] == "closed") || (state == "sold") != (orders[sn] == "paid") {
			k.wrong("order %s: %s in the ledger, but %s in the order table", sn, state, orders[sn])
		}
	}
	stock, err := b.merchant.Stock(ctx, s.ActivityID)
	if err != nil {
		return err
	}
	for _, v := range stock.SKUs {
		if v.Difference != 0 || v.Journal != 0 || v.InFlight != 0 ||
			v.MySQL.Reserved != reserved || v.MySQL.Sold != sold || v.MySQL.Available+reserved+sold != s.stock ||
			v.Gate.Left+reserved+sold != s.stock || v.Gate.Held != reserved {
			k.wrong("activity %s, %d reserved and %d sold in the ledger: %s", s.ActivityID, reserved, sold, v)
		}
	}
	return nil
}

// ledger returns the states of a sale's ledger rows by order_sn.
func (b *bench) ledger(ctx context.Context, s *sale) (map[string]string, error) {
	const query = "SELECT order_sn, state FROM reservations WHERE activity_id = ?"
	rows, err := b.inventoryDB.QueryContext(ctx, query, s.ActivityID)
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
