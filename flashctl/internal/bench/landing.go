package bench

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
)

// stall is how long nothing may land before the run gives up; unsure is when the tables are asked after all: a commit whose
// outcome the service did not hear of is not counted on its metrics page.
const (
	stall  = 2 * time.Minute
	unsure = 5 * time.Second
)

// created is how many orders the order service has created since it began, from its metrics page: asking the tables would
// cost what is being measured.
func (b *bench) created(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.cfg.OrderAdmin+"/metrics", nil)
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
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, "flashsale_order_created_total") {
			n, err := strconv.ParseFloat(value, 64)
			return int(n), err
		}
	}
	return 0, lines.Err() // none was created yet
}

// landed waits until everything accepted so far is an order and nothing is under way any more, and tells how long the
// orders took from now on.
func (b *bench) landed(ctx context.Context) (time.Duration, error) {
	want := 0
	for _, s := range b.sales {
		want += s.count()
	}
	began := time.Now()
	last, moved := -1, began
	var took time.Duration
	for {
		n, err := b.created(ctx)
		if err != nil {
			return 0, err
		}
		n -= b.createdBefore
		if n < want && time.Since(moved) > unsure {
			inTables, err := b.countOrders(ctx)
			if err != nil {
				return 0, err
			}
			b.createdBefore -= max(inTables-n, 0)
			n = max(n, inTables)
		}
		if n >= want && took == 0 {
			took = time.Since(began)
		}
		if n >= want {
			quiet, err := b.quiet(ctx)
			if err != nil {
				return 0, err
			}
			if quiet {
				return took, nil
			}
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > stall {
			return 0, fmt.Errorf("%d were accepted, %d became orders, and for %s nothing has moved", want, n, stall)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// quiet tells whether the ledger knows of an order for each of its rows.
func (b *bench) quiet(ctx context.Context) (bool, error) {
	var one int
	err := b.inventoryDB.QueryRowContext(ctx, "SELECT 1 FROM reservations WHERE republish_at IS NOT NULL LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
