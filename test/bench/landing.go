package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"flashsale.internal/flashctl/client/load"
)

const (
	// stallTimeout is the time without a new order after which the run gives up.
	stallTimeout = 2 * time.Minute
	// countTablesAfter is the time without a new order after which the tables are counted instead of reading the metric,
	// which lacks orders of commits whose outcome is unknown to the service.
	countTablesAfter = 5 * time.Second
)

// created returns the number of orders that the order service has created since it started. It reads the metrics page,
// because counting the tables would change the measurement.
func (b *bench) created(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.OrderAdmin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := b.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if ok && strings.HasPrefix(name, b.Created) {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, lines.Err() // no order was created yet
}

// landed waits until all accepted purchases are orders and no deduction is pending. It returns the time from the call
// to the last order.
func (b *bench) landed(ctx context.Context) (took time.Duration, err error) {
	want := 0
	for _, s := range b.sales {
		want += s.count()
	}
	began := time.Now()
	last, lastAt := -1, began
	count, pause := b.createdInRun, 50*time.Millisecond
	for {
		n, err := count(ctx)
		if err != nil {
			return 0, err
		}
		if n != last {
			last, lastAt = n, time.Now()
		}
		if n >= want {
			if took == 0 {
				took = time.Since(began)
			}
			idle, err := b.inventoryIdle(ctx)
			if err != nil {
				return 0, err
			}
			if idle {
				created, err := b.created(ctx)
				b.createdBefore = created - n // less than before if the metric lacks orders
				return took, err
			}
		}
		if n < want && time.Since(lastAt) > countTablesAfter {
			count, pause = b.countOrders, 500*time.Millisecond
		}
		if time.Since(lastAt) > stallTimeout {
			return 0, fmt.Errorf("%d were accepted, %d became orders, and no more for %s", want, n, stallTimeout)
		}
		if err := load.Until(ctx, time.Now().Add(pause)); err != nil {
			return 0, err
		}
	}
}

// createdInRun returns the number of orders that the order service has created for the sales of the run.
func (b *bench) createdInRun(ctx context.Context) (int, error) {
	n, err := b.created(ctx)
	return n - b.createdBefore, err
}

// inventoryIdle reports whether the ledger has confirmed an order for each of its rows.
func (b *bench) inventoryIdle(ctx context.Context) (bool, error) {
	var one int
	const query = "SELECT 1 FROM reservations WHERE republish_at IS NOT NULL LIMIT 1"
	err := b.inventoryDB.QueryRowContext(ctx, query).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}
